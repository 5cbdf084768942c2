/** Measures holdfast beside its floor and, if asked, other servers. See docs/benchmarks.md. */
import { execFileSync } from "node:child_process";
import { mkdirSync, writeFileSync } from "node:fs";
import { availableParallelism } from "node:os";
import { dirname } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { workerdBinary } from "../src/cli/package.ts";
import type { RunningWorkerd } from "../src/cli/server.ts";
import { fsyncMs } from "./fsync.ts";
import { type Case, Crew, type Result, type Server } from "./measure.ts";
import { type Options, readOptions, USAGE, UsageError } from "./options.ts";
import {
  AIM,
  type CaseReport,
  caseLines,
  heading,
  isLikeForLike,
  ratioOf,
  ratioToFloor,
  rowsLine,
  verdict,
} from "./report.ts";
import { countRows } from "./rows.ts";
import { Lab } from "./servers.ts";

/** After a case the servers tidy up behind its clients; the next one is not to pay for that. */
const SETTLE_MS = 700;
const WARM_UP_MS = 500;

const stop = new AbortController();
const isStopped = () => stop.signal.aborted;

async function main(options: Options): Promise<void> {
  const lab = new Lab();
  for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) {
    process.once(signal, () => {
      stop.abort();
      process.exitCode = 130;
      void lab.close();
    });
  }
  try {
    await measureAll(lab, options);
  } catch (error) {
    // Once stopped, connections break under the clients: that is no news.
    if (!isStopped()) throw error;
  } finally {
    await lab.close();
  }
}

async function measureAll(lab: Lab, options: Options): Promise<void> {
  const machine = describeMachine(lab.folder);
  console.log("Ratios are the result; absolute times hold for this machine, this disk and this minute only.");
  console.log(
    `node ${machine.node}, ${machine.workerd}, ${machine.cores} cores, clients on the same machine, ` +
      `fsync ${machine.fsyncMs.toFixed(2)} ms.\nTimes in ms; cpu = processor time of the server per cycle; ` +
      "busy = load of the client process; ratio = median over turns (quartiles)\n",
  );
  const rows = await countRows(lab);
  const servers = await startServers(lab, options);
  const reports: CaseReport[] = [];
  console.log(heading());
  for (const kase of casesOf(options)) {
    const report = await measureCase(kase, servers, options);
    if (isStopped()) return;
    reports.push(report);
    console.log(caseLines(report).join("\n"));
  }
  console.log(`\n${rowsLine(rows)}\n${verdict(reports)}`);
  const path = options.json ?? defaultPath();
  mkdirSync(dirname(path), { recursive: true });
  const cases = reports.map((report) => ({
    ...report,
    ratioToFloor: ratioToFloor(report),
    isLikeForLike: isLikeForLike(report),
    targets: report.targets.map((target) => ({ ...target, ratioToHoldfast: ratioOf(target.result, report.holdfast) })),
  }));
  writeFileSync(path, `${JSON.stringify({ at: new Date(), machine, options, rows, aim: AIM, cases }, null, 2)}\n`);
  console.log(`results: ${path}`);
}

function describeMachine(folder: string) {
  const workerd = execFileSync(workerdBinary(), ["--version"], { encoding: "utf8" }).trim();
  return { node: process.versions.node, workerd, cores: availableParallelism(), fsyncMs: fsyncMs(folder) };
}

async function startServers(lab: Lab, options: Options): Promise<Server[]> {
  const host = "127.0.0.1";
  const own = (name: string, isLocking: boolean, { pid, tcpPort, httpPort }: RunningWorkerd): Server => ({
    name,
    isLocking,
    pid,
    addresses: { tcp: { host, port: tcpPort }, ws: { host, port: httpPort } },
  });
  return [
    own("holdfast", true, await lab.start("holdfast")),
    own("floor", false, await lab.start("floor")),
    ...options.targets.map(({ name, ...tcp }) => ({ name, isLocking: true, addresses: { tcp } })),
  ];
}

function casesOf({ transports, patterns, clients }: Options): Case[] {
  return transports.flatMap((transport) =>
    patterns.flatMap((pattern) => clients.map((count) => ({ transport, pattern, clients: count }))),
  );
}

/** Servers take turns, so that whatever else the machine does hits all of them. */
async function measureCase(kase: Case, servers: readonly Server[], options: Options): Promise<CaseReport> {
  const crews = new Map<string, Crew>();
  for (const server of servers) {
    if (server.addresses[kase.transport]) crews.set(server.name, await Crew.connect(server, kase));
  }
  for (const crew of crews.values()) await crew.warmUp(WARM_UP_MS, isStopped);
  for (let round = 0; round < options.rounds && !isStopped(); round++) {
    const inTurn = round % 2 === 0 ? [...crews.values()] : [...crews.values()].reverse();
    for (const crew of inTurn) await crew.work((options.seconds / options.rounds) * 1000, isStopped);
  }
  for (const crew of crews.values()) crew.close();
  await pause(SETTLE_MS);
  const { holdfast, floor, ...targets } = Object.fromEntries([...crews].map(([name, crew]) => [name, crew.result()]));
  return {
    ...kase,
    holdfast: holdfast as Result,
    floor: floor as Result,
    targets: Object.entries(targets).map(([name, result]) => ({ name, result })),
  };
}

function defaultPath(): string {
  const time = new Date().toISOString().replace(/[:.]/g, "-");
  return fileURLToPath(new URL(`results/${time}.json`, import.meta.url));
}

try {
  const options = readOptions(process.argv.slice(2));
  if (options) await main(options);
  else console.log(USAGE);
} catch (error) {
  console.error(`bench: ${(error as Error).message}`);
  if (error instanceof UsageError) console.error(USAGE);
  process.exitCode = error instanceof UsageError ? 2 : 1;
}
