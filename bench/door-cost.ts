/** What the front door costs: the same work through it, and by the Worker on a workerd that clients reach directly. */
import { Crew, type Server } from "./measure.ts";
import type { Options, Transport } from "./options.ts";
import { inWords, isNoisy, type Ratio, ratioOf } from "./ratio.ts";
import { inTurns } from "./turns.ts";

/** Share of the throughput without a front door that is meant to remain. */
export const DOOR_AIM = 0.95;

export interface DoorReport {
  readonly transport: Transport;
  readonly clients: number;
  /** Throughput through the door over that without it. */
  readonly throughput: Ratio;
  /** The median latency of a cycle, likewise. */
  readonly latency: number;
  /** Processor time of all the server's processes per cycle, likewise; undefined where the system does not tell. */
  readonly cpu: number | undefined;
}

export async function measureDoor(
  door: Server,
  direct: Server,
  options: Options,
  isStopped: () => boolean,
): Promise<DoorReport[]> {
  const reports: DoorReport[] = [];
  for (const transport of options.transports) {
    for (const clients of options.clients) {
      const kase = { transport, pattern: "own", clients } as const;
      const crews = [await Crew.connect(door, kase), await Crew.connect(direct, kase)];
      const [through, past] = await inTurns(crews, options, isStopped);
      if (isStopped() || !through || !past) return reports;
      reports.push({
        transport,
        clients,
        throughput: ratioOf(through.turns, past.turns),
        latency: through.cycle.p50 / past.cycle.p50,
        cpu: through.cpuPerCycle && past.cpuPerCycle && through.cpuPerCycle / past.cpuPerCycle,
      });
    }
  }
  return reports;
}

export function doorLines(reports: readonly DoorReport[]): string[] {
  const titleOf = ({ transport, clients }: DoorReport) => `${transport} ${clients} client${clients === 1 ? "" : "s"}`;
  const missed = reports.filter(({ throughput }) => throughput.median < DOOR_AIM);
  const noisy = reports.filter(({ throughput }) => isNoisy(throughput)).length;
  return [
    "the front door, as a ratio to workerd without it, each client on a key of its own",
    `${"case".padEnd(18)}${"throughput".padEnd(20)}${"cycle p50".padStart(10)}${"cpu".padStart(7)}`,
    ...reports.map(
      (report) =>
        `${titleOf(report).padEnd(18)}${inWords(report.throughput).padEnd(20)}` +
        `${report.latency.toFixed(2).padStart(10)}${(report.cpu?.toFixed(2) ?? "-").padStart(7)}`,
    ),
    `verdict: aim of ${DOOR_AIM} of workerd without a front door ${missed.length === 0 ? "MET" : "MISSED"}: ` +
      `reached in ${reports.length - missed.length} of ${reports.length} cases` +
      (missed.length > 0 ? `, not in ${missed.map(titleOf).join(", ")}` : "") +
      (noisy > 0 ? `; ${noisy} of these cases too noisy to be believed: repeat on a quiet machine` : ""),
  ];
}
