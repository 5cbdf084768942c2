import { poll } from "./poll.ts";
import { ask, type WireClient } from "./wire-client.ts";

export interface Stats {
  readonly connections: number;
  readonly locks: readonly { key: string; owner_conn_id: number; lease_expires_in_s: number; waiters: number }[];
  readonly semaphores: readonly { key: string; limit: number; holders: number; waiters: number }[];
  readonly idle_locks: readonly { key: string; idle_s: number }[];
  readonly idle_semaphores: readonly { key: string; idle_s: number }[];
}

export async function readStats(client: WireClient): Promise<Stats> {
  const reply = await ask(client, "stats", "_", "_");
  if (!reply.startsWith("ok {")) throw new Error(`expected stats, got ${JSON.stringify(reply)}`);
  return JSON.parse(Buffer.from(reply.slice(3), "latin1").toString("utf8")) as Stats;
}

/** Number of waiters queued on a key of limit 1. */
export async function waitersOf(client: WireClient, key: string): Promise<number> {
  return (await readStats(client)).locks.find((lock) => lock.key === key)?.waiters ?? 0;
}

/** Polls until stats show neither holder nor waiter, and nobody connected but the observer: sooner than a lease ends. */
export async function nothingIsLeft(observer: WireClient): Promise<void> {
  await poll("holders, waiters and connections to be gone", 20_000, async () => {
    const { connections, locks, semaphores } = await readStats(observer);
    return connections === 1 && locks.length === 0 && semaphores.length === 0 ? true : undefined;
  });
}
