/**
 * Self-hosted, one process has all keys, so it knows the state of every key it has loaded, awake or asleep: a sleeping
 * key changes only by the passing of time. Reports read it here and wake nobody. On Cloudflare a key may move to
 * another machine at any time; there this is not kept, and keys must be asked.
 *
 * Objects share this as plain data: the platform does not let one await another's promise.
 */
import type { HolderView, KeyEngine, KeyView } from "../../core/engine/index.ts";
import { configOf, type Env } from "../env.ts";

/** A report counts a key that has more holders by asking it. */
const MAX_HOLDERS = 8;
/** About 30 MB. */
const MAX_KNOWN = 100_000;
/** A key that should have been pruned is asked again after this time. */
const GONE_KEPT_MS = 600_000;

/** A key without what only its object knows. */
export interface SeenKey extends Pick<KeyView, "limit" | "holderCount" | "waiters" | "lastActivity"> {
  readonly holders: readonly Pick<HolderView, "session" | "expiresAt">[];
}

interface KnownKey extends SeenKey {
  /** When the next thing happens that only the key itself can decide. The end of its only lease is not, if nobody waits. */
  readonly decidesAt: number;
}

/**
 * `gone`: it exists no longer, or only until its object gets around to deleting it. `unknown`: it must be asked.
 */
export type Sight = SeenKey | "gone" | "unknown";

const known = new Map<string, KnownKey>();

function isKept(env: Env): boolean {
  return env.SELF_HOSTED !== undefined;
}

/** Records the stored state of a key that exists. */
export function noteKey(env: Env, key: string, engine: KeyEngine): void {
  if (!isKept(env)) return;
  const { limit, holderCount, holders, waiters, lastActivity } = engine.view({
    detail: false,
    maxHolders: MAX_HOLDERS,
  });
  if (holderCount > MAX_HOLDERS || (known.size >= MAX_KNOWN && !known.has(key))) {
    known.delete(key);
    return;
  }
  const brief = holders.map(({ session, expiresAt }) => ({ session, expiresAt }));
  const never = Number.POSITIVE_INFINITY;
  const dueAt = engine.nextWake({ gcMaxIdleMs: never, graceMs: 0 });
  const isOneLease = waiters === 0 && brief.length === 1 && (brief[0]?.expiresAt ?? never) <= dueAt;
  const decidesAt = isOneLease ? never : dueAt;
  known.set(key, { limit, holderCount, holders: brief, waiters, lastActivity, decidesAt });
}

/** The key no longer exists, or cannot be read. */
export function forgetKey(key: string): void {
  known.delete(key);
}

/** How many keys are known. */
export function countKnown(): number {
  return known.size;
}

export function isKnown(key: string): boolean {
  return known.has(key);
}

/** Every known key, and what is known of it. */
export function* knownKeys(env: Env): Generator<[key: string, sight: Sight]> {
  const { gcMaxIdleMs } = configOf(env);
  const now = Date.now();
  for (const [key, state] of known) {
    const sight = sightOf(state, now, gcMaxIdleMs);
    if (sight === "gone" && now - lastEndOf(state) > gcMaxIdleMs + GONE_KEPT_MS) known.delete(key);
    else yield [key, sight];
  }
}

/** What is known of a key. */
export function seeKey(env: Env, key: string): Sight {
  const state = known.get(key);
  return state ? sightOf(state, Date.now(), configOf(env).gcMaxIdleMs) : "unknown";
}

function sightOf(state: KnownKey, now: number, gcMaxIdleMs: number): Sight {
  if (state.decidesAt <= now) return "unknown";
  const seen = state.holders.some(({ expiresAt }) => expiresAt <= now) ? afterExpiry(state, now) : state;
  if (!seen) return "unknown";
  const isIdle = seen.holderCount + seen.waiters === 0;
  return isIdle && now - seen.lastActivity > gcMaxIdleMs ? "gone" : seen;
}

/** The key without its expired holders; undefined if only the key knows who is next. */
function afterExpiry({ limit, holders, waiters, lastActivity }: KnownKey, now: number): SeenKey | undefined {
  if (waiters > 0) return undefined;
  const valid = holders.filter(({ expiresAt }) => expiresAt > now);
  const ended = holders.filter(({ expiresAt }) => expiresAt <= now);
  const lastEnd = lastEndOf({ holders: ended, lastActivity });
  return { limit, holderCount: valid.length, holders: valid, waiters, lastActivity: lastEnd };
}

function lastEndOf({ holders, lastActivity }: Pick<KnownKey, "holders" | "lastActivity">): number {
  return Math.max(lastActivity, ...holders.map(({ expiresAt }) => expiresAt));
}
