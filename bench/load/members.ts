/** Clients of the library that hold or wait, and come back after a crash of the server. */
import { performance } from "node:perf_hooks";
import { setTimeout as pause } from "node:timers/promises";
import { WebSocket } from "ws";
import { connect, type Lock, type Locks } from "../../src/client/index.ts";
import { inParallel } from "./in-parallel.ts";
import type { Answer, Ask } from "./work.ts";

/** Longer than the story takes, so that only the crash can cost a lock. */
const LEASE_MS = 60_000;
/** Losses are told within this time after the last client is back. */
const SETTLE_MS = 2_000;

interface Member {
  readonly locks: Locks;
  readonly lock?: Lock;
  readonly waiting?: Promise<Lock>;
}

const members: Member[] = [];

/** Each holder has a key of its own; waiters wait for some of these. */
export async function join({ url, holders, waiters, atOnce }: Ask<"join">): Promise<Answer<"join">> {
  const startedAt = performance.now();
  const joined = await inParallel(holders + waiters, atOnce, async (index): Promise<Member> => {
    const locks = connect(url, { WebSocket });
    const isHolder = index < holders;
    if (isHolder) return { locks, lock: await locks.acquire(`held-${index}`, { lease: LEASE_MS }) };
    return { locks, waiting: locks.acquire(`held-${index % holders}`, { lease: LEASE_MS }) };
  });
  members.push(...joined);
  return { seconds: (performance.now() - startedAt) / 1000 };
}

export async function watchReturn({ patienceMs }: Ask<"return">): Promise<Answer<"return">> {
  let lost = 0;
  for (const { lock } of members) void lock?.lost.then(() => (lost += 1));
  for (const { waiting } of members) waiting?.catch(() => (lost += 1));
  const backAt: number[] = [];
  const back = members.map(async ({ locks }) => {
    for await (const status of locks.statuses()) {
      // The first status is the one before the crash.
      if (status === "resumed") return void backAt.push(Date.now());
    }
  });
  await Promise.race([Promise.all(back), pause(patienceMs)]);
  await pause(SETTLE_MS);
  return { backAt, lost, held: members.filter(({ lock }) => lock?.isHeld).length };
}
