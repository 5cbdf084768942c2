/** Sticky locks beside plain ones, with the real client: cycles per second, and how soon a waiter elsewhere is served. */
import { performance } from "node:perf_hooks";
import { connect, type Lock, type Locks } from "../src/client/index.ts";
import { Crew, type Server } from "./measure.ts";
import type { Options } from "./options.ts";
import { inWords, type Ratio, ratioOf } from "./ratio.ts";

/** A sticky cycle sends nothing: so many of them for each of a server that keeps its locks in memory. */
export const STICKY_AIM = 10;
/** Someone who waits elsewhere has the lock within so many round trips of the end of the running callback. */
export const STICKY_LIMIT = 2;
const WARM_UP_MS = 300;
/** Longer than a turn of the others: what is kept stays. */
const MAX_IDLE_MS = 60_000;
const HAND_OVERS = 60;
/** A callback of this length runs in a loop while somebody comes to wait. */
const CALLBACK_MS = 2;

export interface StickyReport {
  readonly clients: number;
  readonly plainPerSecond: number;
  readonly stickyPerSecond: number;
  readonly stickyToPlain: Ratio;
  /** Plain cycles of dflockd, over TCP, in the same turns; undefined where it is not installed. */
  readonly dflockdPerSecond: number | undefined;
  readonly stickyToDflockd: Ratio | undefined;
  /** Processor time of the client for a sticky cycle, in microseconds. It hardly depends on what else is running. */
  readonly stickyCpuUs: number;
}

export interface StickyHandOver {
  readonly roundTripMs: number;
  /** From the end of the running callback to the start of the waiter's. */
  readonly handOverMs: number;
  readonly roundTrips: number;
}

export async function measureSticky(
  server: Server,
  dflockd: Server | undefined,
  options: Options,
  isStopped: () => boolean,
) {
  const { host = "", port = 0 } = server.addresses.ws ?? {};
  const open = () => connect(`http://${host}:${port}`);
  const reports: StickyReport[] = [];
  for (const count of options.clients) {
    const clients = Array.from({ length: count }, open);
    await Promise.all(clients.map((locks) => locks.ready()));
    const crew = dflockd && (await Crew.connect(dflockd, { transport: "tcp", pattern: "own", clients: count }));
    await crew?.warmUp(WARM_UP_MS, isStopped);
    const turns = { plain: [] as number[], sticky: [] as number[], cpuUs: [] as number[] };
    const turnMs = (options.seconds / options.rounds) * 1000;
    for (let round = -1; round < options.rounds && !isStopped(); round++) {
      for (const sticky of [false, true]) {
        const { perSecond, cpuUs } = await cycle(clients, sticky, round < 0 ? WARM_UP_MS : turnMs, isStopped);
        if (round < 0) continue;
        turns[sticky ? "sticky" : "plain"].push(perSecond);
        if (sticky) turns.cpuUs.push(cpuUs);
      }
      if (round >= 0) await crew?.work(turnMs, isStopped);
    }
    crew?.close();
    await Promise.all(clients.map((locks) => locks.close()));
    if (isStopped()) break;
    const [plainPerSecond, stickyPerSecond] = [median(turns.plain), median(turns.sticky)];
    const [stickyToPlain, stickyCpuUs] = [ratioOf(turns.sticky, turns.plain), median(turns.cpuUs)];
    const memory = crew?.result();
    reports.push({
      clients: count,
      plainPerSecond,
      stickyPerSecond,
      stickyToPlain,
      dflockdPerSecond: memory && median(memory.turns),
      stickyToDflockd: memory && ratioOf(turns.sticky, memory.turns),
      stickyCpuUs,
    });
  }
  return { reports, handOver: isStopped() ? undefined : await measureHandOver(open) };
}

/** Each client cycles on a key of its own. */
async function cycle(
  clients: readonly Locks[],
  sticky: boolean,
  ms: number,
  isStopped: () => boolean,
): Promise<{ readonly perSecond: number; readonly cpuUs: number }> {
  let cycles = 0;
  const [startedAt, usedBefore] = [performance.now(), process.cpuUsage()];
  await Promise.all(
    clients.map(async (locks, index) => {
      const options = { sticky, maxIdle: MAX_IDLE_MS };
      const key = `${sticky ? "sticky" : "plain"}-${index}`;
      while (performance.now() - startedAt < ms && !isStopped()) {
        await locks.request(key, options, () => {});
        cycles += 1;
      }
    }),
  );
  const { user, system } = process.cpuUsage(usedBefore);
  return { perSecond: (cycles * 1000) / (performance.now() - startedAt), cpuUs: (user + system) / cycles };
}

async function measureHandOver(open: () => Locks): Promise<StickyHandOver> {
  const [busy, other] = [open(), open()];
  await Promise.all([busy.ready(), other.ready()]);
  const key = "sticky-wanted";
  let [endedAt, isOver] = [0, false];
  const work = async (_: Lock) => {
    await new Promise((resolve) => setTimeout(resolve, CALLBACK_MS));
    endedAt = performance.now();
  };
  const loop = (async () => {
    while (!isOver) await busy.request(key, { sticky: true }, work);
  })();
  const [trips, times]: [number[], number[]] = [[], []];
  for (let count = 0; count < HAND_OVERS; count++) {
    const askedAt = performance.now();
    // Goes to a key's object and back, as an acquire or a release does.
    await other.request("sticky-alone", { sticky: false }, () => {});
    trips.push((performance.now() - askedAt) / 2);
    await other.request(key, { sticky: false }, () => {
      times.push(performance.now() - endedAt);
    });
    await new Promise((resolve) => setTimeout(resolve, 3 * CALLBACK_MS));
  }
  isOver = true;
  await loop;
  await Promise.all([busy.close(), other.close()]);
  const [roundTripMs, handOverMs] = [median(trips), median(times)];
  return { roundTripMs, handOverMs, roundTrips: handOverMs / roundTripMs };
}

const median = (values: readonly number[]) =>
  [...values].sort((a, b) => a - b)[Math.floor(values.length / 2)] ?? Number.NaN;

function beside(report: StickyReport | undefined): string {
  if (!report?.stickyToDflockd) return "beside dflockd: not measured, it is not installed";
  const { clients, stickyToDflockd } = report;
  return (
    `beside dflockd with ${clients} clients: ${inWords(stickyToDflockd)} times its cycles: the aim of ${STICKY_AIM} is ` +
    `${stickyToDflockd.median >= STICKY_AIM ? "MET" : "MISSED"}`
  );
}

export function stickyLines({ reports, handOver }: Awaited<ReturnType<typeof measureSticky>>): string[] {
  const rate = (value: number) => value.toFixed(0).padStart(10);
  return [
    "sticky locks beside plain ones, with the client, own keys, all clients in one process: cycles/s",
    `${"clients".padEnd(8)}${"plain".padStart(10)}${"sticky".padStart(10)}${"dflockd".padStart(10)}${"cpu µs".padStart(8)}  sticky / plain, sticky / dflockd`,
    ...reports.map(
      ({ clients, plainPerSecond, stickyPerSecond, dflockdPerSecond, stickyToPlain, stickyToDflockd, stickyCpuUs }) =>
        `${String(clients).padEnd(8)}${rate(plainPerSecond)}${rate(stickyPerSecond)}` +
        `${dflockdPerSecond === undefined ? "-".padStart(10) : rate(dflockdPerSecond)}` +
        `${stickyCpuUs.toFixed(1).padStart(8)}  ${inWords(stickyToPlain)}${stickyToDflockd ? `, ${inWords(stickyToDflockd)}` : ""}`,
    ),
    beside(reports.at(-1)),
    handOver
      ? `a waiter elsewhere has the lock ${handOver.handOverMs.toFixed(2)} ms after the running callback ends, ` +
        `${handOver.roundTrips.toFixed(2)} round trips of ${handOver.roundTripMs.toFixed(2)} ms: ` +
        `the promise of ${STICKY_LIMIT} is ${handOver.roundTrips <= STICKY_LIMIT ? "KEPT" : "BROKEN"}`
      : "no hand-over was measured",
  ];
}
