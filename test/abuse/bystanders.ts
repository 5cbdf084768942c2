/** Clients that mind their own business while another one misbehaves: each holds a lock with a lease of 5 s and renews it every second. */
import { setTimeout as pause } from "node:timers/promises";
import type { Clients } from "../support/clients.ts";
import { send } from "../support/http-client.ts";
import { ask, lock, type Transport, type WireClient } from "../support/wire-client.ts";
import { isLong, scaled } from "./scale.ts";

const LEASE_S = 5;
const EVERY_MS = 1_000;
const PATIENCE_MS = 30_000;
/** Bystanders are answered within a second. On a machine that other tests use as well, the server may not run that long. */
export const ANSWERED_WITHIN_MS = scaled(2_000, 1_000);

export interface Watched<Result> {
  readonly result: Result;
  /**
   * The longest that any renewal, or the question whether the server is well, took to be answered. Time in which this
   * process did not get to read the answer, because it plays the bad client as well, does not count.
   */
  readonly slowestMs: number;
  /** Renewals in all. */
  readonly renewals: number;
  /** Renewals that were refused: the lock was gone. */
  readonly lost: number;
}

/**
 * Runs `story` beside bystanders of both transports and, if a port is given, somebody who asks there every second whether the
 * server is well. At least one renewal of each begins after the story has ended.
 */
export async function besideBystanders<Result>(
  { clients, httpPort }: { readonly clients: Clients; readonly httpPort?: number },
  story: () => Promise<Result>,
): Promise<Watched<Result>> {
  const transports: Transport[] = ["tcp", "ws", "tcp", "ws"];
  const seen = { slowestMs: 0, renewals: 0, lost: 0 };
  let isOver = false;
  const bystanders = await Promise.all(
    transports.map(async (transport, index) => {
      const client = await clients.open(transport);
      const key = `bystander-${index}-${process.hrtime.bigint()}`;
      return { client, key, token: await lock(client, key, `10 ${LEASE_S}`) };
    }),
  );
  using busy = new BusyTime();
  const everySecond = async (task: () => Promise<void>) => {
    for (;;) {
      const endsStory = isOver;
      const startedAt = performance.now();
      const busyBefore = busy.ms;
      await task();
      const ms = performance.now() - startedAt;
      seen.slowestMs = Math.max(seen.slowestMs, ms - (busy.ms - busyBefore));
      if (endsStory) return;
      await pause(Math.max(0, EVERY_MS - ms));
    }
  };
  const watch = Promise.all([
    httpPort === undefined ? undefined : everySecond(() => askForHealth(httpPort)),
    ...bystanders.map(({ client, key, token }) =>
      everySecond(async () => {
        seen.renewals += 1;
        if (!(await renew(client, key, token)).startsWith("ok")) seen.lost += 1;
      }),
    ),
  ]);
  // Awaited below; until then its failure is no news.
  watch.catch(() => {});
  try {
    const result = await story();
    isOver = true;
    await watch;
    for (const { client, key, token } of bystanders) await ask(client, "r", key, token);
    if (isLong) console.log(`slowest answer ${Math.round(seen.slowestMs)} ms, ${seen.renewals} renewals`);
    return { result, ...seen };
  } finally {
    isOver = true;
    // If the story fails, so may they: that is not news.
    await watch.catch(() => {});
  }
}

const TICK_MS = 10;

/** How long this process has kept its own timers waiting, so far. */
class BusyTime implements Disposable {
  #ms = 0;
  #last = performance.now();
  readonly #timer = setInterval(() => this.#tick(), TICK_MS);

  get ms(): number {
    this.#tick();
    return this.#ms;
  }

  #tick(): void {
    const now = performance.now();
    this.#ms += Math.max(0, now - this.#last - TICK_MS);
    this.#last = now;
  }

  [Symbol.dispose](): void {
    clearInterval(this.#timer);
  }
}

async function askForHealth(httpPort: number): Promise<void> {
  const { status } = await send(httpPort, { method: "GET", path: "/health" }, PATIENCE_MS);
  if (status !== 200) throw new Error(`/health says ${status}`);
}

async function renew(client: WireClient, key: string, token: string): Promise<string> {
  client.send(`n\n${key}\n${token} ${LEASE_S}\n`);
  return client.next(PATIENCE_MS);
}
