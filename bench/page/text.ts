/** The text of docs/benchmarks.md, its charts, and the figures of the README. */
import type { Capacity } from "../capacity.ts";
import { ON_DISK, type ServerNote, SIMULATOR } from "../contenders.ts";
import type { Measured, WorkloadResult } from "../cycles.ts";
import type { Findings } from "../findings.ts";
import { type Goal, goalsOf } from "../goals.ts";
import type { Machine } from "../machine.ts";
import { inWords, isNoisy, type Ratio, ratioOf } from "../ratio.ts";
import { barChart } from "./chart.ts";

const CLIENTS_ARE_THE_LIMIT = 0.9;

const isOurs = (label: string) => label.startsWith("holdfast");
const ms = (time: number) => (Number.isNaN(time) ? "" : time < 10 ? time.toFixed(2) : time.toFixed(1));
const cpu = (time: number) => (Number.isNaN(time) ? "" : time.toFixed(3));
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

/** Another's cycles per second over those of holdfast on disk, turn by turn. */
function ratioToOurs(workload: WorkloadResult, other: Measured): Ratio | undefined {
  const ours = workload.measured.find(({ label }) => label === ON_DISK);
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
      cpu(cpuPerCycle),
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
  const drawn = workloads.map((workload) => ({
    ...workload,
    measured: workload.measured.filter(({ isDurable, label }) => isDurable && label !== SIMULATOR),
  }));
  const cyclesTitle = "Acquire and release, each on disk: cycles per second";
  const handOverTitle = "From a release to the next grant, one key, 10 clients, p50 in ms (shorter is better)";
  return [
    {
      file: "benchmarks/cycles.svg",
      alternative: cyclesTitle,
      svg: barChart(
        cyclesTitle,
        drawn
          .filter(({ pattern }) => pattern !== "hot")
          .map(({ title, measured }) => ({
            title,
            bars: measured.map((each) => ({
              label: each.label,
              value: each.result.cyclesPerSecond,
              text: rate(each),
              isOurs: isOurs(each.label),
            })),
          })),
      ),
    },
    {
      file: "benchmarks/hand-over.svg",
      alternative: handOverTitle,
      svg: barChart(
        handOverTitle,
        drawn
          .filter(({ pattern, clients }) => pattern === "hot" && clients > 1)
          .map(({ title, measured }) => ({
            title,
            bars: measured.map(({ label, result: { handOver } }) => ({
              label,
              value: handOver?.p50 ?? Number.NaN,
              text: handOver ? `${ms(handOver.p50)} ms (p99 ${ms(handOver.p99)})` : "none seen",
              isOurs: isOurs(label),
            })),
          })),
      ),
    },
  ];
}

/** All cycles as plain text. */
export function figureLines({ workloads }: Findings): string[] {
  return workloads.flatMap((workload) => [
    workload.title,
    ...workload.measured.map((measured) => {
      const { cycle, handOver, cpuPerCycle, clientsBusy } = measured.result;
      const handOvers = handOver ? `, hand-over p50 ${ms(handOver.p50)}` : "";
      return (
        `  ${measured.label.padEnd(40)}${rate(measured).padStart(10)}/s  p50 ${ms(cycle.p50)}, p99 ${ms(cycle.p99)}${handOvers}, ` +
        `processor ${cpu(cpuPerCycle)}, clients busy ${(clientsBusy * 100).toFixed(0)} %  ${ratioCell(workload, measured)}`
      );
    }),
  ]);
}

const machineLine = ({ cores, processor, memoryGb, kernel, fileSystem, fsyncMs }: Machine) =>
  `${cores} cores of ${processor}, ${memoryGb} GB, ${kernel}, ${fileSystem}, fsync ${fsyncMs.toFixed(2)} ms`;

/** Load that was there before anything was measured comes from elsewhere, and so does more than one server and its clients can cause. */
const isBusy = ({ load: [before, after], machine: { cores } }: Findings) => before > cores / 2 || after > cores * 2;
const busyNote = (findings: Findings) =>
  isBusy(findings) ? ". **Other work was running: do not rely on these figures**" : "";

const serverRow = ({ name, version, promise }: ServerNote) => [
  name,
  version ?? "**not installed**: not measured",
  promise,
];

const goalRow = ({ title, must, aim, value, verdict, isAimReached, isDoubtful }: Goal) => [
  title,
  must,
  aim,
  `${value}${isDoubtful ? " ~" : ""}`,
  (verdict === "missed" ? "**missed**" : verdict) + (must && isAimReached ? ", aim reached" : ""),
];

const kilobytes = (bytes: number) => `${(bytes / 1024).toFixed(1)} KB`;
const seconds = (time: number) => `${(time / 1000).toFixed(2)} s`;

function capacityTable(capacity: Capacity): string {
  const { connectsPerSecond, bytesPerConnection, idleBytes, bytesPerHeldKey, startMs, comeBack, reportMs } = capacity;
  return table(
    ["", "TCP", "WebSocket"],
    [
      ["connect and have an answer, clients a second", count(connectsPerSecond.tcp), count(connectsPerSecond.ws)],
      ["memory of an idle connection", kilobytes(bytesPerConnection.tcp), kilobytes(bytesPerConnection.ws)],
      ["memory of an idle server", `${(idleBytes / 2 ** 20).toFixed(0)} MB`, ""],
      ["memory of a held key", kilobytes(bytesPerHeldKey), ""],
      ["start of the process to first answer", seconds(startMs.empty), ""],
      ["the same with 20,000 held keys", seconds(startMs.withHeldKeys), ""],
      [`\`/metrics\` with ${count(reportMs.keys)} held keys`, seconds(reportMs.metrics), ""],
      [`\`/v1/stats\` with ${count(reportMs.keys)} held keys`, seconds(reportMs.stats), ""],
      [
        `${count(comeBack.back)} of ${count(comeBack.clients)} clients back after \`kill -9\``,
        "",
        seconds(comeBack.allMs),
      ],
      ["half of them", "", seconds(comeBack.halfMs)],
      ["lost a lock or a place in a queue", "", count(comeBack.lost)],
    ],
  );
}

export function benchmarksPage(findings: Findings): string {
  const { day, rounds, machine, load, servers, workloads, capacity } = findings;
  return `# Benchmarks

Written by \`npm run bench -- --report\` on ${day}. Do not edit it: run that again. What earlier designs have taught:
[benchmarks-history.md](benchmarks-history.md). Dollars on Cloudflare: [cost.md](cost.md).

| | |
|---|---|
| machine | ${machineLine(machine)}, Node ${machine.node} |
| load | ${load[0].toFixed(2)} before, ${load[1].toFixed(2)} after; servers and clients share the machine${busyNote(findings)} |
| time | ${findings.seconds} s per server and workload, in ${rounds} turns, servers and workloads alternating |

A cycle is one acquire and one release, each sent when the answer to the one before has come. Ratios hold from machine to
machine better than absolute figures; both are of this machine, this disk and these minutes.

## Goals

\`npm run bench -- --goals\` measures only these. They are about holdfast on Node, on disk unless it says otherwise. Ratios are medians over turns (quartiles); \`~\`
marks turns that disagree by more than a third: believe less.

${table(["", "must be", "aim", "measured", ""], goalsOf(findings).map(goalRow))}

## Who promises what

${table(["server", "version", "a grant is"], servers.map(serverRow))}

All data lies on the same disk. Over TCP where nothing else is said: holdfast and dflockd speak three lines, Redis RESP (SET with NX and PX,
and a script that deletes only one's own lock), etcd gRPC (its lock service, which runs the recipe of the Go client). The clients are one Node
process per server that speaks these protocols on bare sockets.

## Where a grant is on disk before it is told

${chartsOf(findings)
  .map(({ file, alternative }) => `![${alternative}](${file})`)
  .join("\n\n")}

## All figures

Times in milliseconds. *Of holdfast* is the median over turns of another's cycles per second over those of holdfast on disk (quartiles); \`~\`
as above. *Processor* is the server's processor time per cycle. \`≥\` marks
figures where the clients were the limit. Redis has no queue: a client that finds the lock taken
tries again after 10 ms (libraries wait 100 to 200), so its order is chance and its hand-over that pause.

${workloads.map(workloadTable).join("\n\n")}
${capacity ? `\n### What one server takes\n\nholdfast on Node, on disk. Memory is resident memory after a rest.\n\n${capacityTable(capacity)}\n` : ""}`;
}

export const README_BEGIN = "<!-- benchmarks: written by npm run bench -- --report -->";
export const README_END = "<!-- /benchmarks -->";

/** What a person can use: one client, many clients, a hand-over, and what one server takes. */
export function readmeFigures(findings: Findings): string {
  const { workloads, machine, servers, day, capacity } = findings;
  const find = (pattern: string, clients: number) =>
    workloads.find((workload) => workload.pattern === pattern && workload.clients === clients);
  const [one, many, fresh, hot] = [find("own", 1), find("own", 50), find("fresh", 50), find("hot", 10)];
  const cell = (workload: WorkloadResult | undefined, label: string, show: (measured: Measured) => string) => {
    const measured = workload?.measured.find((each) => each.label === label);
    return measured ? show(measured) : "";
  };
  const rows = servers
    .filter(({ version }) => version !== undefined)
    .map(({ name, isDurable }) => [
      name,
      isDurable ? "on disk" : "in memory",
      cell(one, name, (measured) => `${rate(measured)} (${ms(measured.result.cycle.p50)} ms)`),
      cell(many, name, rate),
      cell(fresh, name, rate),
      cell(hot, name, ({ result }) => (result.handOver ? `${ms(result.handOver.p50)} ms` : "")),
    ]);
  const missing = servers.filter(({ version }) => version === undefined).map(({ name }) => name);
  const head = ["", "a grant is", "cycles/s, 1 client (p50)", "50 clients", "50 clients, new keys", "hand-over, p50"];
  return [
    README_BEGIN,
    table(head, rows),
    "",
    ...(capacity ? [capacityLine(capacity), ""] : []),
    `${day}, clients and server on one machine: ${machineLine(machine)}.` +
      (isBusy(findings)
        ? ` Other work was running there (load ${findings.load.map((load) => load.toFixed(1)).join(" to ")}).`
        : "") +
      (missing.length > 0 ? ` Not installed there, so not measured: ${missing.join(", ")}.` : "") +
      " The local simulator is `wrangler dev`: it shows that the Worker works, not how fast it is on Cloudflare.",
    README_END,
  ].join("\n");
}

const capacityLine = ({ startMs, connectsPerSecond, bytesPerConnection, bytesPerHeldKey, comeBack }: Capacity) =>
  `On Node it answers ${seconds(startMs.empty)} after its start (${seconds(startMs.withHeldKeys)} with 20,000 held keys), takes ${count(connectsPerSecond.ws)} new WebSocket clients a ` +
  `second, ${kilobytes(bytesPerConnection.ws)} for each that is idle and ${kilobytes(bytesPerHeldKey)} for a held key. After \`kill -9\`, ${count(comeBack.back)} of ${count(comeBack.clients)} ` +
  `clients were back within ${seconds(comeBack.allMs)}; ${comeBack.lost === 0 ? "none lost anything" : `${count(comeBack.lost)} lost something`}.`;

/** The README with new figures in the place of the old ones. */
export function withFigures(readme: string, figures: string): string {
  const [from, to] = [readme.indexOf(README_BEGIN), readme.indexOf(README_END)];
  if (from < 0 || to < from) throw new Error("the README has no place for the figures");
  return readme.slice(0, from) + figures + readme.slice(to + README_END.length);
}
