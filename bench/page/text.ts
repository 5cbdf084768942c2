/** The text of docs/benchmarks.md, its charts, and the figures of the README. */
import { inWords, isNoisy, type Ratio, ratioOf } from "../ratio.ts";
import { barChart } from "./chart.ts";
import type { Machine } from "./machine.ts";
import type { Measured, WorkloadResult } from "./workloads.ts";

export interface PeerNote {
  readonly name: string;
  readonly promise: string;
  readonly isDurable: boolean;
  /** Undefined if it is not installed. */
  readonly version: string | undefined;
}

export interface Findings {
  /** The day of the run, `2026-11-17`. */
  readonly day: string;
  readonly seconds: number;
  readonly rounds: number;
  readonly machine: Machine;
  /** Load of the machine before and after. */
  readonly load: readonly [number, number];
  readonly peers: readonly PeerNote[];
  readonly workloads: readonly WorkloadResult[];
}

/** What all others are compared with. */
export const OURS = "holdfast";
const CLIENTS_ARE_THE_LIMIT = 0.9;

const isOurs = (label: string) => label.startsWith(OURS);
const ms = (time: number) => (Number.isNaN(time) ? "" : time < 10 ? time.toFixed(2) : time.toFixed(1));
const count = (value: number) =>
  Math.round(value)
    .toString()
    .replace(/\B(?=(\d{3})+$)/g, ",");
const row = (cells: readonly string[]) => `| ${cells.map((cell) => (cell === "" ? "" : `${cell} `)).join("| ")}|`;
const table = (head: readonly string[], rows: readonly (readonly string[])[]) =>
  [row(head), `|${"---|".repeat(head.length)}`, ...rows.map(row)].join("\n");

/** Cycles per second; a lower bound where the clients had no more to give. */
const rate = ({ result }: Measured) =>
  `${result.clientsBusy > CLIENTS_ARE_THE_LIMIT ? "≥ " : ""}${count(result.cyclesPerSecond)}`;

/** holdfast's cycles per second over another's, turn by turn. */
export function ratioToOurs(workload: WorkloadResult, other: Measured): Ratio | undefined {
  const ours = workload.measured.find(({ label }) => label === OURS);
  return ours && other !== ours ? ratioOf(other.result.turns, ours.result.turns) : undefined;
}

function ratioCell(workload: WorkloadResult, measured: Measured): string {
  const ratio = ratioToOurs(workload, measured);
  if (!ratio) return "1";
  return Number.isFinite(ratio.high) ? `${inWords(ratio)}${isNoisy(ratio) ? " ~" : ""}` : "";
}

function workloadTable(workload: WorkloadResult): string {
  const isHot = workload.pattern === "hot";
  const head = [
    "",
    "cycles/s",
    "of holdfast",
    "cycle p50",
    "p99",
    ...(isHot ? ["hand-over p50", "p99"] : []),
    "processor",
  ];
  const rows = workload.measured.map((measured) => {
    const { cycle, handOver, cpuPerCycle } = measured.result;
    return [
      isOurs(measured.label) ? `**${measured.label}**` : measured.label,
      rate(measured),
      ratioCell(workload, measured),
      ms(cycle.p50),
      ms(cycle.p99),
      ...(isHot ? [ms(handOver?.p50 ?? Number.NaN), ms(handOver?.p99 ?? Number.NaN)] : []),
      cpuPerCycle === undefined ? "" : ms(cpuPerCycle),
    ];
  });
  return `### ${capital(workload.title)}\n\n${table(head, rows)}`;
}

const capital = (text: string) => text.slice(0, 1).toUpperCase() + text.slice(1);

export interface Chart {
  /** Below `docs/`. */
  readonly file: string;
  readonly svg: string;
  readonly alternative: string;
}

/** Only servers whose grants are on disk before the reply are drawn side by side: the others do other work. */
export function chartsOf({ workloads }: Findings): Chart[] {
  const durable = workloads.map((workload) => ({
    ...workload,
    measured: workload.measured.filter(({ isDurable }) => isDurable),
  }));
  const cycles = (title: string, file: string, patterns: readonly string[]): Chart => ({
    file,
    alternative: title,
    svg: barChart(
      title,
      durable
        .filter(({ pattern }) => patterns.includes(pattern))
        .map((workload) => ({
          title: workload.title,
          bars: workload.measured.map((measured) => ({
            label: measured.label,
            value: measured.result.cyclesPerSecond,
            text: rate(measured),
            isOurs: isOurs(measured.label),
          })),
        })),
    ),
  });
  const handOverTitle = "From a release to the next grant, one key, 10 clients, p50 in ms (shorter is better)";
  return [
    cycles("Acquire and release, each on disk: cycles per second", "benchmarks/cycles.svg", ["own"]),
    cycles("A new key, or a new connection, for each cycle: cycles per second", "benchmarks/fresh.svg", [
      "fresh",
      "visit",
    ]),
    {
      file: "benchmarks/hand-over.svg",
      alternative: handOverTitle,
      svg: barChart(
        handOverTitle,
        durable
          .filter(({ pattern }) => pattern === "hot")
          .map((workload) => ({
            title: workload.title,
            bars: workload.measured.map(({ label, result }) => ({
              label,
              value: result.handOver?.p50 ?? Number.NaN,
              text: result.handOver ? `${ms(result.handOver.p50)} ms (p99 ${ms(result.handOver.p99)})` : "none seen",
              isOurs: isOurs(label),
            })),
          })),
      ),
    },
  ];
}

const machineLine = ({ cores, processor, memoryGb, kernel, fileSystem, fsyncMs }: Machine) =>
  `${cores} cores of ${processor}, ${memoryGb} GB, ${kernel}, ${fileSystem}, fsync ${fsyncMs.toFixed(2)} ms`;

/** Load that was there before anything was measured comes from elsewhere. */
const isBusy = ({ load, machine }: Findings) => load[0] > machine.cores / 2;
const busyNote = (findings: Findings) =>
  isBusy(findings) ? ". **Other work was running: do not rely on these figures**" : "";

function peerRows(peers: readonly PeerNote[]): string[][] {
  return peers.map(({ name, version, promise }) => [name, version ?? "**not installed**: not measured", promise]);
}

export function benchmarksPage(findings: Findings): string {
  const { day, seconds, rounds, machine, load, peers, workloads } = findings;
  const ours = `${machine.holdfast}, workerd ${machine.workerd}, Node ${machine.node}`;
  return `# Benchmarks

Written by \`npm run bench -- --report\` on ${day}. Do not edit it: run that again. How holdfast compares with what its platform
allows, and what has been measured before: [benchmarks-history.md](benchmarks-history.md). Dollars: [cost.md](cost.md).

| | |
|---|---|
| machine | ${machineLine(machine)} |
| load | ${load[0].toFixed(2)} before, ${load[1].toFixed(2)} after; servers and clients share the machine${busyNote(findings)} |
| time | ${seconds} s per server and workload, in ${rounds} turns, the servers alternating |

A cycle is one acquire and one release, each sent when the answer to the one before has come. Ratios hold from machine to
machine better than absolute figures; both are of this machine, this disk and these minutes.

## Who promises what

${table(["server", "version", "a grant is"], [[OURS, ours, "on disk before the reply; a queue; a fence"], ...peerRows(peers)])}

All data lies on the same disk. Over TCP where nothing else is said: holdfast and dflockd speak three lines, Redis RESP (SET with NX and PX,
and a script that deletes only one's own lock), etcd gRPC (its lock service, which runs the recipe of the Go client).

## Where a grant is on disk before it is told

${chartsOf(findings)
  .map(({ file, alternative }) => `![${alternative}](${file})`)
  .join("\n\n")}

## All figures

Times in milliseconds. *Of holdfast* is the median over turns of another's cycles per second over holdfast's (quartiles); \`~\`
marks turns that disagree by more than a third: believe less. *Processor* is the server's processor time per cycle. \`≥\` marks
figures where the clients, one Node process, were the limit. Redis has no queue: a client that finds the lock taken
tries again after 10 ms (libraries wait 100 to 200), so its order is chance and its hand-over that pause.

${workloads.map(workloadTable).join("\n\n")}
`;
}

export const README_BEGIN = "<!-- benchmarks: written by npm run bench -- --report -->";
export const README_END = "<!-- /benchmarks -->";

/** Three columns that a person can use: one client, many clients, a hand-over. */
export function readmeFigures(findings: Findings): string {
  const { workloads, machine, peers, day } = findings;
  const find = (pattern: string, clients: number) =>
    workloads.find((workload) => workload.pattern === pattern && workload.clients === clients);
  const [one, many, hot] = [find("own", 1), find("own", 50), find("hot", 10)];
  const cell = (workload: WorkloadResult | undefined, label: string, show: (measured: Measured) => string) => {
    const measured = workload?.measured.find((each) => each.label === label);
    return measured ? show(measured) : "";
  };
  const labels = [OURS, ...peers.filter(({ version }) => version !== undefined).map(({ name }) => name)];
  const rows = labels.map((label) => [
    label,
    label === OURS || peers.some(({ name, isDurable }) => name === label && isDurable) ? "on disk" : "in memory",
    cell(one, label, (measured) => `${rate(measured)} (${ms(measured.result.cycle.p50)} ms)`),
    cell(many, label, rate),
    cell(hot, label, ({ result }) => (result.handOver ? `${ms(result.handOver.p50)} ms` : "")),
  ]);
  const missing = peers.filter(({ version }) => version === undefined).map(({ name }) => name);
  return [
    README_BEGIN,
    table(["", "a grant is", "cycles/s, 1 client (p50)", "cycles/s, 50 clients", "hand-over, p50"], rows),
    "",
    `${day}, clients and server on one machine: ${machineLine(machine)}.` +
      (isBusy(findings) ? ` Other work was running there (load ${findings.load[0].toFixed(1)}).` : "") +
      (missing.length > 0 ? ` Not installed there, so not measured: ${missing.join(", ")}.` : ""),
    README_END,
  ].join("\n");
}

/** The README with new figures in the place of the old ones. */
export function withFigures(readme: string, figures: string): string {
  const [from, to] = [readme.indexOf(README_BEGIN), readme.indexOf(README_END)];
  if (from < 0 || to < from) throw new Error("the README has no place for the figures");
  return readme.slice(0, from) + figures + readme.slice(to + README_END.length);
}
