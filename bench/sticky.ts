/** Sticky locks beside plain ones, with the real client: cycles per second, and how soon a waiter elsewhere is served. */
import { performance } from "node:perf_hooks";
import { connect, type Lock, type Locks } from "../src/client/index.ts";
import type { TurnOptions } from "./cycles.ts";
import { inWords, type Ratio, ratioOf } from "./ratio.ts";
import type { Lab } from "./servers.ts";

const CLIENTS = [2, 10, 50];
/** A client that waits elsewhere has the lock within so many round trips of the end of the running callback. */
const STICKY_LIMIT = 2;
const WARM_UP_MS = 300;
/** Longer than a turn of the others: what is kept stays. */
const MAX_IDLE_MS = 60_000;
const HAND_OVERS = 60;
/** A callback of this length runs in a loop while another client comes to wait. */
const CALLBACK_MS = 2;

export interface StickyReport {
  readonly clients: number;
  readonly plainPerSecond: number;
  readonly stickyPerSecond: number;
  readonly stickyToPlain: Ratio;
  /** Processor time of the client for a sticky cycle, in microseconds. It hardly depends on what else is running. */
  readonly stickyCpuUs: number;
}

export interface StickyHandOver {
  readonly roundTripMs: number;
  /** From the end of the running callback to the start of the waiter's. */
  readonly handOverMs: number;
  readonly roundTrips: number;
}

export async function measureSticky(lab: Lab, options: TurnOptions) {
  const server = await lab.startNode();
  const open = () => connect(server.url);
  const reports: StickyReport[] = [];
  for (const count of CLIENTS) {
    const clients = Array.from({ length: count }, open);
    await Promise.all(clients.map((locks) => locks.ready()));
    const turns = { plain: [] as number[], sticky: [] as number[], cpuUs: [] as number[] };
    const turnMs = (options.seconds / options.rounds) * 1000;
    for (let round = -1; round < options.rounds; round++) {
      for (const sticky of [false, true]) {
        const { perSecond, cpuUs } = await cycle(clients, sticky, round < 0 ? WARM_UP_MS : turnMs);
        if (round < 0) continue;
        turns[sticky ? "sticky" : "plain"].push(perSecond);
        if (sticky) turns.cpuUs.push(cpuUs);
      }
    }
    await Promise.all(clients.map((locks) => locks.close()));
    reports.push({
      clients: count,
      plainPerSecond: median(turns.plain),
      stickyPerSecond: median(turns.sticky),
      stickyToPlain: ratioOf(turns.sticky, turns.plain),
      stickyCpuUs: median(turns.cpuUs),
    });
  }
  const handOver = await measureHandOver(open);
  await server.kill();
  return { reports, handOver };
}

/** Each client cycles on a key of its own. */
async function cycle(
  clients: readonly Locks[],
  sticky: boolean,
  ms: number,
): Promise<{ readonly perSecond: number; readonly cpuUs: number }> {
  let cycles = 0;
  const [startedAt, usedBefore] = [performance.now(), process.cpuUsage()];
  await Promise.all(
    clients.map(async (locks, index) => {
      const options = { sticky, maxIdle: MAX_IDLE_MS };
      const key = `${sticky ? "sticky" : "plain"}-${index}`;
      while (performance.now() - startedAt < ms) {
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

export function stickyLines({ reports, handOver }: Awaited<ReturnType<typeof measureSticky>>): string[] {
  const rate = (value: number) => value.toFixed(0).padStart(10);
  return [
    "sticky locks beside plain ones, with the client, own keys, all clients in one process: cycles/s",
    `${"clients".padEnd(8)}${"plain".padStart(10)}${"sticky".padStart(10)}${"cpu µs".padStart(8)}  sticky / plain`,
    ...reports.map(
      ({ clients, plainPerSecond, stickyPerSecond, stickyToPlain, stickyCpuUs }) =>
        `${String(clients).padEnd(8)}${rate(plainPerSecond)}${rate(stickyPerSecond)}` +
        `${stickyCpuUs.toFixed(1).padStart(8)}  ${inWords(stickyToPlain)}`,
    ),
    `a waiter elsewhere has the lock ${handOver.handOverMs.toFixed(2)} ms after the running callback ends, ` +
      `${handOver.roundTrips.toFixed(2)} round trips of ${handOver.roundTripMs.toFixed(2)} ms: ` +
      `the promise of ${STICKY_LIMIT} is ${handOver.roundTrips <= STICKY_LIMIT ? "kept" : "BROKEN"}`,
  ];
}
