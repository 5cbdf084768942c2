import { type Scope, seesKey } from "../auth/scope.ts";
import { logged } from "../log.ts";
import { askKey } from "../objects/calls/ask-key.ts";
import { directoryOfKey, type Labels } from "../objects/calls/directories.ts";
import { ownerIdOf } from "../objects/calls/session-names.ts";
import type { ListedKey, Transport } from "../objects/directory/directory-object.ts";
import type { Env } from "../objects/env.ts";
import { hasNewLabels } from "../objects/key/history.ts";
import { type Moment, sharedAnswer } from "../objects/pacing/shared-answers.ts";
import { type HistoryDetail, historyOf, labelsOn, type MembersDetail, membersOf, seconds } from "./key-detail.ts";
import { compareBytes, walkKeys } from "./key-walk.ts";

export { labelsOf } from "../objects/calls/directories.ts";
export type { GrantDetail, HistoryDetail, HolderDetail, MembersDetail, WaiterDetail } from "./key-detail.ts";

export interface LockStats extends Partial<MembersDetail> {
  key: string;
  owner_conn_id: number;
  lease_expires_in_s: number;
  waiters: number;
}

export interface SemaphoreStats extends Partial<MembersDetail> {
  key: string;
  limit: number;
  holders: number;
  waiters: number;
}

export interface IdleStats {
  key: string;
  idle_s: number;
}

/** The service at a glance, as reported by every protocol. Field order is part of the format. */
export interface Stats {
  connections: number;
  locks: LockStats[];
  semaphores: SemaphoreStats[];
  idle_locks: IdleStats[];
  idle_semaphores: IdleStats[];
  /** Keys that exist but cannot be read, the first hundred of them; absent if there are none. */
  unreachable?: string[];
  /** The number of all unreachable keys. */
  unreachable_count?: number;
  /** There are more keys than an unpaged document shows. */
  truncated?: true;
  /** The last key of a page, if another page follows. */
  next_cursor?: string;
}

/** Which part of the service to show. `connections` always counts all sessions. */
export interface StatsOptions {
  readonly prefix?: string;
  /** Makes the document a page of this many keys, 1 to 10,000. */
  readonly limit?: number;
  /** The `next_cursor` of the previous page. */
  readonly cursor?: string;
  /** Adds holders and waiters to every lock and semaphore. */
  readonly detail?: boolean;
  /** Shows only keys for which this is true. */
  readonly sees?: (key: string) => boolean;
}

/** One key and its members. Field order is part of the format. */
export interface KeyDetail extends MembersDetail {
  key: string;
  kind: "lock" | "semaphore";
  limit: number;
  holders: number;
  waiters: number;
  /** Only for a key without holders and waiters. */
  idle_s?: number;
  /** Only if asked for. */
  history?: HistoryDetail;
}

export interface Gauges {
  sessions: Record<Transport, number>;
  /** Held keys with limit 1. */
  locksHeld: number;
  lockWaiters: number;
  /** Slots held on keys with a higher limit. */
  semaphoreHolders: number;
  semaphoreWaiters: number;
  /** Keys that could be read. */
  keys: number;
  /** Keys that exist but cannot be read. */
  keysUnreachable: number;
}

const MAX_KEYS = 10_000;
const MAX_UNREACHABLE_NAMED = 100;

/** The options of a report, and the rights of the caller that limit it. */
export interface StatsQuestion extends Omit<StatsOptions, "sees"> {
  /** Shows only the keys of this scope. */
  readonly scope?: Scope | undefined;
}

/** The service as JSON, as of a time after the moment `asked`. Equal concurrent questions share the answer. */
export function statsDocument(env: Env, { scope, ...options }: StatsQuestion, asked: Moment): Promise<string> {
  const sees = scope && ((key: string) => seesKey(scope, key));
  return sharedAnswer(`stats ${JSON.stringify([options, scope?.keys])}`, asked, async () =>
    JSON.stringify(await gatherStats(env, { ...options, ...(sees && { sees }) })),
  );
}

/**
 * One key as JSON, as of a time after the moment `asked`, or undefined if it does not exist. Shared like all reports.
 */
export function keyDocument(
  env: Env,
  key: string,
  options: { readonly history: boolean },
  asked: Moment,
): Promise<string | undefined> {
  return sharedAnswer(`key ${JSON.stringify([key, options])}`, asked, async () => {
    const detail = await gatherKey(env, key, options);
    return detail && JSON.stringify(detail);
  });
}

/** The current state of the service. Changes nothing. */
export async function gatherStats(env: Env, options: StatsOptions = {}): Promise<Stats> {
  const { prefix = "", limit = MAX_KEYS, cursor = "", detail = false, sees } = options;
  const stats: Stats = { connections: 0, locks: [], semaphores: [], idle_locks: [], idle_semaphores: [] };
  const found: ListedKey[] = [];
  const missed: string[] = [];
  const walk = { prefix, after: cursor, limit: limit + 1, detail, ...(sees && { sees }) };
  for await (const { keys, unreachable, sessions } of walkKeys(env, walk)) {
    found.push(...keys);
    missed.push(...unreachable);
    stats.connections = sessions.tcp + sessions.ws + sessions.http;
  }
  const page = found.slice(0, limit);
  const labels = detail ? await labelsOn(env, page) : undefined;
  const now = Date.now();
  for (const key of page) add(stats, key, labels, now);
  const last = page.at(-1)?.key;
  const isCut = found.length > page.length && last !== undefined;
  nameUnreachable(stats, isCut ? missed.filter((key) => compareBytes(key, last) < 0) : missed);
  if (isCut) markCut(stats, options.limit === undefined ? undefined : last);
  return stats;
}

/** The current state of one key, or undefined if it does not exist. Creates nothing. */
export async function gatherKey(
  env: Env,
  key: string,
  { history = false }: { readonly history?: boolean } = {},
): Promise<KeyDetail | undefined> {
  const isListed = await directoryOfKey(env, key).lists(key);
  const view = isListed && (await askKey(env, key, (object) => object.describe({ detail: true, history })));
  if (!view) return undefined;
  const labels = await labelsOn(env, [view]);
  // Sessions that have ended have no label in the directory: store the labels known now with the key.
  if (view.history && hasNewLabels(view.history, labels))
    await askKey(env, key, (object) => object.rememberLabels(labels)).catch(logged("key_unreachable"));
  const now = Date.now();
  const { limit, waiters, holderCount } = view;
  return {
    key,
    kind: limit === 1 ? "lock" : "semaphore",
    limit,
    holders: holderCount,
    waiters,
    ...(holderCount + waiters === 0 && { idle_s: seconds(now - view.lastActivity) }),
    ...membersOf(view, labels, now),
    ...(view.history && { history: historyOf(view.history, labels) }),
  };
}

/** The numbers of the whole service, for any number of keys. */
export async function gatherGauges(env: Env): Promise<Gauges> {
  const gauges: Gauges = {
    sessions: { tcp: 0, ws: 0, http: 0 },
    locksHeld: 0,
    lockWaiters: 0,
    semaphoreHolders: 0,
    semaphoreWaiters: 0,
    keys: 0,
    keysUnreachable: 0,
  };
  for await (const { keys, unreachable, sessions } of walkKeys(env, { limit: Number.POSITIVE_INFINITY })) {
    gauges.sessions = { ...sessions };
    gauges.keys += keys.length;
    gauges.keysUnreachable += unreachable.length;
    for (const key of keys) addUp(gauges, key);
  }
  return gauges;
}

function addUp(gauges: Gauges, { limit, holderCount, waiters }: ListedKey): void {
  if (limit === 1) {
    gauges.locksHeld += holderCount;
    gauges.lockWaiters += waiters;
  } else {
    gauges.semaphoreHolders += holderCount;
    gauges.semaphoreWaiters += waiters;
  }
}

function add(stats: Stats, view: ListedKey, labels: Labels | undefined, now: number): void {
  const { key, limit, waiters, holderCount } = view;
  const members = labels && membersOf(view, labels, now);
  if (holderCount + waiters === 0) {
    const idle = { key, idle_s: seconds(now - view.lastActivity) };
    (limit === 1 ? stats.idle_locks : stats.idle_semaphores).push(idle);
  } else if (limit === 1) stats.locks.push({ key, ...firstHolderOf(view, now), waiters, ...members });
  else stats.semaphores.push({ key, limit, holders: holderCount, waiters, ...members });
}

function firstHolderOf({ holders: [holder] }: ListedKey, now: number) {
  if (!holder) return { owner_conn_id: 0, lease_expires_in_s: 0 };
  return { owner_conn_id: ownerIdOf(holder.session), lease_expires_in_s: seconds(holder.expiresAt - now) };
}

function nameUnreachable(stats: Stats, keys: readonly string[]): void {
  if (keys.length === 0) return;
  stats.unreachable = keys.slice(0, MAX_UNREACHABLE_NAMED);
  stats.unreachable_count = keys.length;
}

/** Marks a partial document: a page says where the next one begins. */
function markCut(stats: Stats, cursor: string | undefined): void {
  if (cursor === undefined) stats.truncated = true;
  else stats.next_cursor = cursor;
}
