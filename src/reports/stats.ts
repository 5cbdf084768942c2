import { commonPrefix, type Scope, seesKey } from "../core/auth/scope.ts";
import { ownerIdOf } from "../core/session-names.ts";
import type { KeyReport, Service } from "../service.ts";
import { type HistoryDetail, historyOf, type MembersDetail, membersOf, seconds } from "./key-detail.ts";

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
  /** Some sessions and keys may be missing; absent if none are. */
  behind?: true;
  /** There are more keys than this document shows. */
  truncated?: true;
  /** The last key looked at, if another page follows. The page may have fewer keys than asked for, or none. */
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

const MAX_KEYS = 10_000;
const MAX_UNREACHABLE_NAMED = 100;

/** The options of a report, and the rights of the caller that limit it. */
export interface StatsQuestion extends Omit<StatsOptions, "sees"> {
  /** Shows only the keys of this scope. */
  readonly scope?: Scope | undefined;
  /** The address of the client that asks. */
  readonly address?: string | undefined;
}

/** The service as JSON. Equal concurrent questions share the answer. */
export function statsDocument(
  service: Pick<Service, "directory" | "share">,
  { scope, address, ...options }: StatsQuestion,
): Promise<string> {
  return service.share(
    `stats ${JSON.stringify([options, scope?.keys])}`,
    async () => JSON.stringify(await gatherStats(service, scope ? within(scope, options) : options)),
    address,
  );
}

/** Only names that may be in the scope are read: there may be many others. */
function within(scope: Scope, options: StatsOptions): StatsOptions {
  const [prefix = "", common] = [options.prefix, commonPrefix(scope)];
  return { ...options, prefix: common.startsWith(prefix) ? common : prefix, sees: (key) => seesKey(scope, key) };
}

/** One key as JSON, or undefined if it does not exist. Shared like all reports. */
export function keyDocument(
  service: Pick<Service, "keys" | "share">,
  key: string,
  options: { readonly history: boolean },
): Promise<string | undefined> {
  return service.share(`key ${JSON.stringify([key, options])}`, async () => {
    const detail = await gatherKey(service, key, options);
    return detail && JSON.stringify(detail);
  });
}

/** The current state of the service. Changes nothing. */
export async function gatherStats(
  { directory }: Pick<Service, "directory">,
  options: StatsOptions = {},
): Promise<Stats> {
  const { prefix = "", limit = MAX_KEYS, cursor = "", detail = false, sees = () => true } = options;
  const page = await directory.page({ prefix, after: cursor, limit, detail, sees });
  const { sessions, keys, unreachable, next, isBehind } = page;
  const connections = sessions.tcp + sessions.ws + sessions.http;
  const stats: Stats = { connections, locks: [], semaphores: [], idle_locks: [], idle_semaphores: [] };
  const now = Date.now();
  for (const key of keys) add(stats, key, detail ? membersOf(key, now) : undefined, now);
  nameUnreachable(stats, unreachable);
  if (isBehind) stats.behind = true;
  if (next !== undefined) markCut(stats, options.limit === undefined ? undefined : next);
  return stats;
}

/** The current state of one key, or undefined if it does not exist. Creates nothing. */
export async function gatherKey(
  { keys }: Pick<Service, "keys">,
  key: string,
  { history = false }: { readonly history?: boolean } = {},
): Promise<KeyDetail | undefined> {
  const report = await keys.describe(key, { history });
  if (!report) return undefined;
  const now = Date.now();
  const { limit, waiters, holderCount } = report;
  return {
    key,
    kind: limit === 1 ? "lock" : "semaphore",
    limit,
    holders: holderCount,
    waiters,
    ...(holderCount + waiters === 0 && { idle_s: seconds(now - report.lastActivity) }),
    ...membersOf(report, now),
    ...(report.history && { history: historyOf(report.history) }),
  };
}

type FoundKey = KeyReport & { readonly key: string };

function add(stats: Stats, view: FoundKey, members: MembersDetail | undefined, now: number): void {
  const { key, limit, waiters, holderCount } = view;
  if (holderCount + waiters === 0) {
    const idle = { key, idle_s: seconds(now - view.lastActivity) };
    (limit === 1 ? stats.idle_locks : stats.idle_semaphores).push(idle);
  } else if (limit === 1) stats.locks.push({ key, ...firstHolderOf(view, now), waiters, ...members });
  else stats.semaphores.push({ key, limit, holders: holderCount, waiters, ...members });
}

function firstHolderOf({ holders: [holder] }: FoundKey, now: number) {
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
