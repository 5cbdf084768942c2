/**
 * Sessions that are being taken up again in this isolate. After a restart of a self-hosted server all of them come back at once, and
 * lose everything if they come too late. Each then asks at once for what it holds and waits for, which wakes keys and costs as much
 * as a return: that waits until the rush is over. On Cloudflare a session has its isolate for itself, and there is no rush.
 */
import type { KeyRequest } from "./operations.ts";

/** Returns are counted over about this time. */
const MEMORY_MS = 200;
/** More returns than this, within that time, are a rush: forty a second. */
const FEW_RETURNS = 8;
/** Less than the default grace, in which everybody is back. */
const MAX_WAIT_MS = 8_000;
/** Who renews a lease waits for no more than this part of it. */
const PART_OF_LEASE = 1 / 5;
/** Long enough that looking whether the rush is over costs nothing; and when it is, not everybody goes on in the same moment. */
const LOOK_AGAIN_MS = { least: 300, most: 1_500 };

let count = 0;
let countedAt = Number.NEGATIVE_INFINITY;

function recentReturns(now: number): number {
  // A clock that was set back must not make a rush last.
  return now < countedAt ? 0 : count * Math.exp(-(now - countedAt) / MEMORY_MS);
}

/** A session is taken up again. */
export function noteReturn(now: number): void {
  count = recentReturns(now) + 1;
  countedAt = now;
}

export function isRush(now: number): boolean {
  return recentReturns(now) > FEW_RETURNS;
}

/** Resolves when a session that has just been taken up may ask a key for something. */
export async function untilCalm(request: KeyRequest, defaultLeaseMs: number): Promise<void> {
  const giveUpAt = Date.now() + patienceFor(request, defaultLeaseMs);
  while (isRush(Date.now()) && Date.now() < giveUpAt) {
    const pauseMs = LOOK_AGAIN_MS.least + Math.random() * (LOOK_AGAIN_MS.most - LOOK_AGAIN_MS.least);
    await scheduler.wait(Math.min(pauseMs, giveUpAt - Date.now()));
  }
}

export function patienceFor(request: KeyRequest, defaultLeaseMs: number): number {
  // Others wait for what is released.
  if (request.type === "release") return 0;
  if (request.type !== "renew") return MAX_WAIT_MS;
  const leaseMs = request.leaseSeconds === undefined ? defaultLeaseMs : request.leaseSeconds * 1_000;
  return Math.min(MAX_WAIT_MS, leaseMs * PART_OF_LEASE);
}
