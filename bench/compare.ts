/**
 * Compares builds: `npm run bench:compare -- before.js after.js`. A file is a built Worker, and is served behind a front door of
 * this version; a folder is a whole release, and is served by itself. See docs/benchmarks-history.md.
 */
import { statSync } from "node:fs";
import { basename } from "node:path";
import { parseArgs } from "node:util";
import { type Case, Crew, type Result } from "./measure.ts";
import { TRANSPORTS } from "./options.ts";
import { inWords, ratioOf } from "./ratio.ts";
import { Lab, type RunningServer } from "./servers.ts";
import { inTurns } from "./turns.ts";

const USAGE = `Usage: npm run bench:compare -- [options] BEFORE AFTER...
  BEFORE, AFTER   a built Worker (dist/worker.js), or the folder of a release that has been built
  --cases LIST    transport:pattern:clients, such as ws:own:10,rest:hot:2; patterns: own, hot, fresh, visit
  --seconds N     measured seconds per case and Worker (4)
  --rounds N      turns into which they are split (20)`;

const DEFAULT_CASES = TRANSPORTS.flatMap((transport) =>
  [`own:1`, `own:10`, `own:50`, `hot:10`].map((rest) => `${transport}:${rest}`),
).join();

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    cases: { type: "string", default: DEFAULT_CASES },
    seconds: { type: "string", default: "4" },
    rounds: { type: "string", default: "20" },
  },
});
const options = { seconds: Number(values.seconds), rounds: Number(values.rounds) };
const cases = values.cases.split(",").map(caseFrom);
if (positionals.length < 2 || cases.includes(undefined) || !(options.seconds > 0) || !(options.rounds > 0)) {
  console.error(USAGE);
  process.exit(2);
}

function caseFrom(text: string): Case | undefined {
  const [, transport, pattern, clients] = /^(tcp|ws|rest):(own|hot|fresh|visit):([1-9][0-9]*)$/.exec(text) ?? [];
  return transport && pattern && clients ? ({ transport, pattern, clients: Number(clients) } as Case) : undefined;
}

let isStopped = false;
process.once("SIGINT", () => {
  isStopped = true;
});

const lab = new Lab();
try {
  const servers: RunningServer[] = [];
  for (const [index, path] of positionals.entries()) {
    const name = `${index + 1} ${basename(path)}`;
    const isRelease = statSync(path).isDirectory();
    servers.push(await (isRelease ? lab.startRelease(name, path) : lab.startService(name, path)));
  }
  console.log(
    "Ratios to the first Worker, medians over the turns (quartiles): cycles per second, CPU per cycle, hand-over",
  );
  for (const kase of cases) if (kase && !isStopped) await compare(servers, kase);
} finally {
  await lab.close();
}

async function compare(servers: readonly RunningServer[], kase: Case): Promise<void> {
  const crews: Crew[] = [];
  for (const server of servers) crews.push(await Crew.connect(server, kase));
  const [before, ...others] = await inTurns(crews, options, () => isStopped);
  if (isStopped || !before) return;
  const title = `${kase.transport} ${kase.pattern} ${kase.clients}`.padEnd(12);
  const rate = `${before.cyclesPerSecond.toFixed(0)}/s`.padStart(8);
  console.log(
    title,
    rate,
    ...others.map(
      (after) =>
        ` ${inWords(ratioOf(after.turns, before.turns))}, CPU ${inWords(ratioOf(after.cpuTurns, before.cpuTurns))}` +
        handOversOf(before, after),
    ),
  );
}

/** Only where one client waits for another. */
function handOversOf(before: Result, after: Result): string {
  if (!before.handOver || !after.handOver) return "";
  const ms = `${before.handOver.p50.toFixed(2)} -> ${after.handOver.p50.toFixed(2)} ms`;
  return `, hand-over ${inWords(ratioOf(after.handOverTurns, before.handOverTurns))}, p50 ${ms}`;
}
