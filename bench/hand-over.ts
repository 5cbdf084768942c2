/** How long a lock takes from one client to the next, over each transport. */
import { Crew, type Latency, type Server } from "./measure.ts";
import { type Options, TRANSPORTS, type Transport } from "./options.ts";
import { inWords, isNoisy, type Ratio, ratioOf } from "./ratio.ts";
import { inTurns } from "./turns.ts";

/** A hand-over to a REST client takes at most so many times as long as one to a WebSocket client. */
export const HAND_OVER_LIMIT = 2;
/** One client holds, one waits: nothing but the hand-over happens. */
const FEWEST_CLIENTS = 2;

export interface HandOverReport {
  readonly clients: number;
  readonly times: Readonly<Record<Transport, Latency>>;
  /** Medians of the turns, REST over WebSocket. */
  readonly restToWs: Ratio;
}

/** All clients want the same key of the same server; the transports take turns. */
export async function measureHandOvers(
  server: Server,
  options: Options,
  isStopped: () => boolean,
): Promise<HandOverReport[]> {
  const counts = new Set([FEWEST_CLIENTS, ...options.clients.filter((count) => count > 1)]);
  const reports: HandOverReport[] = [];
  for (const clients of counts) {
    const crews = new Map<Transport, Crew>();
    for (const transport of TRANSPORTS) {
      crews.set(transport, await Crew.connect(server, { transport, pattern: "hot", clients }));
    }
    const results = await inTurns([...crews.values()], options, isStopped);
    if (isStopped()) return reports;
    const [tcp, ws, rest] = results.map(({ handOver = { p50: Number.NaN, p99: Number.NaN }, handOverTurns }) => ({
      ...handOver,
      turns: handOverTurns,
    }));
    if (tcp && ws && rest) reports.push({ clients, times: { tcp, ws, rest }, restToWs: ratioOf(rest.turns, ws.turns) });
  }
  return reports;
}

export function handOverLines(reports: readonly HandOverReport[]): string[] {
  const ms = (time: number) => time.toFixed(2).padStart(8);
  const cells = ({ p50, p99 }: Latency) => `${ms(p50)}${ms(p99)}`;
  const head = ["tcp", "ws", "rest"].map((name) => `${`${name} p50`.padStart(9)}${"p99".padStart(7)}`).join("");
  const worst = reports.reduce<HandOverReport | undefined>(
    (a, b) => (a && a.restToWs.median >= b.restToWs.median ? a : b),
    undefined,
  );
  return [
    "hand-over, from the sending of a release to the grant seen by the next in line, ms",
    `${"clients".padEnd(8)}${head}  rest / ws`,
    ...reports.map(
      ({ clients, times: { tcp, ws, rest }, restToWs }) =>
        `${String(clients).padEnd(8)}${cells(tcp)}${cells(ws)}${cells(rest)}  ${inWords(restToWs)}`,
    ),
    worst
      ? `verdict: a hand-over over REST takes at most ${worst.restToWs.median.toFixed(2)} times one over WebSocket: ` +
        `the promise of ${HAND_OVER_LIMIT} is ${worst.restToWs.median <= HAND_OVER_LIMIT ? "KEPT" : "BROKEN"}` +
        (reports.some(({ restToWs }) => isNoisy(restToWs)) ? "; the turns disagree: repeat on a quiet machine" : "")
      : "verdict: no hand-over was measured",
  ];
}
