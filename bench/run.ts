/** Measures holdfast beside its floor and, if asked, other servers. See docs/benchmarks-history.md; for `--report`, docs/benchmarks.md. */
import { execFileSync } from "node:child_process";
import { mkdirSync, writeFileSync } from "node:fs";
import { availableParallelism, loadavg } from "node:os";
import { dirname } from "node:path";
import { fileURLToPath } from "node:url";
import { workerdBinary } from "../src/front/system/package.ts";
import { DOOR_AIM, type DoorReport, doorLines, measureDoor } from "./door-cost.ts";
import { FRESH_AIM, FSYNCS_LIMIT, freshLines, measureFresh } from "./fresh.ts";
import { fsyncMs } from "./fsync.ts";
import { HAND_OVER_LIMIT, type HandOverReport, handOverLines, measureHandOvers } from "./hand-over.ts";
import { type Case, Crew, type Result, type Server } from "./measure.ts";
import { type Options, readOptions, type Section, USAGE, UsageError } from "./options.ts";
import { report } from "./page/run.ts";
import { DFLOCKD } from "./peers/peers.ts";
import { measureQuorum, type QuorumReport, quorumLines } from "./quorum.ts";
import { ratioOf } from "./ratio.ts";
import { AIM, type CaseReport, caseLines, heading, isLikeForLike, ratioToFloor, rowsLine, verdict } from "./report.ts";
import { countRows } from "./rows.ts";
import { Lab, type RunningServer } from "./servers.ts";
import { measureSticky, STICKY_AIM, STICKY_LIMIT, stickyLines } from "./sticky.ts";
import { inTurns } from "./turns.ts";

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
    if (options.report) await report(lab, options, isStopped);
    else await measureAll(lab, options);
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
      `fsync ${machine.fsyncMs.toFixed(2)} ms.\n${loadLine()}\n` +
      "Ratios = median over turns (quartiles)",
  );
  const holdfast = await lab.startService();
  const has = (section: Section) => options.sections.includes(section) && !isStopped();
  const cases = has("cases") ? await reportCases(lab, holdfast, options) : undefined;
  const handOvers = has("hand-over") ? await reportHandOvers(holdfast, options) : undefined;
  const door = has("door") ? await reportDoor(lab, holdfast, options) : undefined;
  const quorum = has("quorum") ? await reportQuorum(lab, options) : undefined;
  const sticky = has("sticky") ? await reportSticky(lab, holdfast, options) : undefined;
  const fresh = has("fresh") ? await reportFresh(lab, holdfast, options) : undefined;
  if (isStopped()) return;
  console.log(`\n${loadLine()}`);
  const path = options.json ?? defaultPath();
  mkdirSync(dirname(path), { recursive: true });
  const results = { at: new Date(), machine, options, ...cases, handOvers, door, quorum, sticky, fresh };
  writeFileSync(path, `${JSON.stringify(results, null, 2)}\n`);
  console.log(`results: ${path}`);
}

/** Whoever else uses the machine decides how far the turns disagree. */
const loadLine = () =>
  `load of the machine (1, 5, 15 minutes): ${loadavg()
    .map((load) => load.toFixed(2))
    .join(" ")}`;

async function reportCases(lab: Lab, holdfast: Server, options: Options) {
  const rows = await countRows(lab);
  const servers: Server[] = [
    holdfast,
    await lab.start("floor"),
    ...options.targets.map(({ name, ...tcp }) => ({ name, locksOver: ["tcp"] as const, pids: [], addresses: { tcp } })),
  ];
  console.log(
    "\nholdfast beside the floor. Times in ms; cpu = processor time of the server per cycle, front door included; " +
      "busy = load of the client process",
  );
  const reports: CaseReport[] = [];
  console.log(heading());
  for (const kase of casesOf(options)) {
    const report = await measureCase(kase, servers, options);
    if (isStopped()) return undefined;
    reports.push(report);
    console.log(caseLines(report).join("\n"));
  }
  console.log(`\n${rowsLine(rows)}\n${verdict(reports)}`);
  const cases = reports.map((report) => ({
    ...report,
    ratioToFloor: ratioToFloor(report),
    isLikeForLike: isLikeForLike(report),
    targets: report.targets.map((target) => ({
      ...target,
      ratioToHoldfast: ratioOf(target.result.turns, report.holdfast.turns),
    })),
  }));
  return { rows, aim: AIM, cases };
}

async function reportHandOvers(holdfast: Server, options: Options) {
  const reports: HandOverReport[] = await measureHandOvers(holdfast, options, isStopped);
  if (!isStopped()) console.log(`\n${handOverLines(reports).join("\n")}`);
  return { limit: HAND_OVER_LIMIT, reports };
}

async function reportDoor(lab: Lab, holdfast: Server, options: Options) {
  const reports: DoorReport[] = await measureDoor(holdfast, await lab.start("direct"), options, isStopped);
  if (!isStopped()) console.log(`\n${doorLines(reports).join("\n")}`);
  return { aim: DOOR_AIM, reports };
}

async function reportQuorum(lab: Lab, options: Options) {
  const reports: QuorumReport[] = await measureQuorum(lab.folder, options, isStopped);
  if (!isStopped()) console.log(`\n${quorumLines(reports).join("\n")}`);
  return { reports };
}

async function reportSticky(lab: Lab, holdfast: Server, options: Options) {
  const report = await measureSticky(holdfast, await lab.startPeer(DFLOCKD), options, isStopped);
  if (!isStopped()) console.log(`\n${stickyLines(report).join("\n")}`);
  return { limit: STICKY_LIMIT, aim: STICKY_AIM, ...report };
}

async function reportFresh(lab: Lab, holdfast: RunningServer, options: Options) {
  const reports = await measureFresh(lab, holdfast, options, isStopped);
  if (!isStopped()) console.log(`\n${freshLines(reports).join("\n")}`);
  return { aim: FRESH_AIM, fsyncsLimit: FSYNCS_LIMIT, ...reports };
}

function describeMachine(folder: string) {
  const workerd = execFileSync(workerdBinary(), ["--version"], { encoding: "utf8" }).trim();
  return { node: process.versions.node, workerd, cores: availableParallelism(), fsyncMs: fsyncMs(folder) };
}

function casesOf({ transports, patterns, clients }: Options): Case[] {
  return transports.flatMap((transport) =>
    patterns.flatMap((pattern) => clients.map((count) => ({ transport, pattern, clients: count }))),
  );
}

async function measureCase(kase: Case, servers: readonly Server[], options: Options): Promise<CaseReport> {
  const speakers = servers.filter(({ addresses }) => addresses[kase.transport]);
  const crews = await Promise.all(speakers.map((server) => Crew.connect(server, kase)));
  const [holdfast, floor, ...others] = await inTurns(crews, options, isStopped);
  return {
    ...kase,
    holdfast: holdfast as Result,
    floor: floor as Result,
    targets: others.map((result, index) => ({ name: speakers[index + 2]?.name ?? "", result })),
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
