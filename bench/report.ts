import type { Case, Result } from "./measure.ts";
import { inWords, isNoisy, ratioOf } from "./ratio.ts";
import type { RowsPerCycle } from "./rows.ts";

/** Share of the floor's throughput that holdfast is meant to reach. */
export const AIM = 0.8;

/** One case: what holdfast, the floor and the targets did in turns. */
export interface CaseReport extends Case {
  readonly holdfast: Result;
  readonly floor: Result;
  readonly targets: readonly { readonly name: string; readonly result: Result }[];
}

/**
 * The floor has no line to stand in over REST: on a hot key its clients are served side by side, while locks are handed
 * over one by one. Nor has it keys to found or sessions to count.
 */
export const isLikeForLike = ({ transport, pattern, clients }: Case) =>
  pattern === "own" || (pattern === "hot" && (transport !== "rest" || clients === 1));

/** The aim is set for the transports on which a client has a connection of its own. */
const hasAim = (report: CaseReport) => report.transport !== "rest" && isLikeForLike(report);

export const ratioToFloor = ({ holdfast, floor }: CaseReport) => ratioOf(holdfast.turns, floor.turns);

const COLUMNS = [
  ["case", 22],
  ["server", 14],
  ["cycles/s", 9],
  ["cycle p50", 10],
  ["p99", 8],
  ["acquire p50", 12],
  ["p99", 8],
  ["hand-over p50", 14],
  ["p99", 8],
  ["cpu", 6],
  ["busy", 6],
  ["ratio", 0],
] as const;

export const heading = () => inColumns(COLUMNS.map(([title]) => title));

/** The lines of one case, one per server. */
export function caseLines(report: CaseReport): string[] {
  const { transport, pattern, clients, holdfast, floor, targets } = report;
  const title = `${transport} ${pattern} ${clients} client${clients === 1 ? "" : "s"}`;
  const lacks = pattern === "hot" ? "does not queue" : "has no keys or sessions to found";
  const note = isLikeForLike(report) ? "" : `, which ${lacks}`;
  return [
    line(title, "holdfast", holdfast, `${inWords(ratioToFloor(report))} of floor${note}`),
    line("", "floor", floor, ""),
    ...targets.map(({ name, result }) =>
      line("", name, result, `${inWords(ratioOf(result.turns, holdfast.turns))} of holdfast`),
    ),
  ];
}

export function rowsLine({ key, session, directory }: RowsPerCycle): string {
  const total = key + session + directory;
  return `rows written per uncontended cycle: ${total} (key ${key}, session ${session}, directory ${directory})`;
}

export function verdict(reports: readonly CaseReport[]): string {
  const judged = reports
    .filter(hasAim)
    .map((report) => ({ ...report, ratio: ratioToFloor(report) }))
    .sort((a, b) => a.ratio.median - b.ratio.median);
  const [worst] = judged;
  if (!worst) return "verdict: no case over TCP or WebSocket was measured";
  const met = judged.filter(({ ratio }) => ratio.median >= AIM).length;
  const noisy = judged.filter(({ ratio }) => isNoisy(ratio)).length;
  return (
    `verdict: aim of ${AIM} of the floor ${met === judged.length ? "MET" : "MISSED"}: reached in ${met} of ` +
    `${judged.length} cases over TCP and WebSocket, worst ${worst.ratio.median.toFixed(3)} ` +
    `(${worst.transport} ${worst.pattern} ${worst.clients})` +
    (noisy > 0 ? `; ${noisy} of these cases too noisy to be believed: repeat on a quiet machine` : "")
  );
}

function line(title: string, server: string, { cycle, acquire, handOver, ...rest }: Result, note: string): string {
  return inColumns([
    title,
    server,
    rest.cyclesPerSecond.toFixed(0),
    ms(cycle.p50),
    ms(cycle.p99),
    ms(acquire.p50),
    ms(acquire.p99),
    handOver ? ms(handOver.p50) : "-",
    handOver ? ms(handOver.p99) : "-",
    rest.cpuPerCycle === undefined ? "-" : ms(rest.cpuPerCycle),
    `${(rest.clientsBusy * 100).toFixed(0)}%`,
    note,
  ]);
}

function inColumns(cells: readonly string[]): string {
  return cells
    .map((cell, index) => {
      const width = COLUMNS[index]?.[1] ?? 0;
      return index < 2 || width === 0 ? cell.padEnd(width) : cell.padStart(width);
    })
    .map((cell, index) => (index === COLUMNS.length - 1 ? `  ${cell}` : cell))
    .join("")
    .trimEnd();
}

const ms = (time: number) => (Number.isNaN(time) ? "-" : time.toFixed(2));
