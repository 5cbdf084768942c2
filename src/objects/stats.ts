import type { KeyView } from "../engine/index.ts";
import { allDirectories } from "./directories.ts";
import type { ListedKey } from "./directory.ts";
import type { Env } from "./env.ts";
import { ownerIdOf } from "./owner.ts";

/** The service at a glance, as every protocol reports it. Field order is part of the format. */
export interface Stats {
  connections: number;
  locks: { key: string; owner_conn_id: number; lease_expires_in_s: number; waiters: number }[];
  semaphores: { key: string; limit: number; holders: number; waiters: number }[];
  idle_locks: { key: string; idle_s: number }[];
  idle_semaphores: { key: string; idle_s: number }[];
  truncated?: true;
}

const MOST_KEYS = 10_000;

/** Asks the directory which keys exist and each key how it stands. Nothing changes by asking. */
export async function gatherStats(env: Env): Promise<Stats> {
  const reports = await Promise.all(allDirectories(env).map((directory) => directory.report(MOST_KEYS + 1)));
  const keys = reports.flatMap((report) => report.keys).sort((a, b) => compareBytes(a.key, b.key));
  const connections = reports.reduce((sum, report) => sum + report.sessions, 0);
  const stats: Stats = { connections, locks: [], semaphores: [], idle_locks: [], idle_semaphores: [] };
  const now = Date.now();
  for (const key of keys.slice(0, MOST_KEYS)) add(stats, key, now);
  if (keys.length > MOST_KEYS) stats.truncated = true;
  return stats;
}

function add(stats: Stats, view: ListedKey, now: number): void {
  const { key, limit, waiters, holderCount } = view;
  if (holderCount + waiters === 0) {
    const idle = { key, idle_s: seconds(now - view.lastActivity) };
    (limit === 1 ? stats.idle_locks : stats.idle_semaphores).push(idle);
  } else if (limit === 1) stats.locks.push({ key, ...holderOf(view, now), waiters });
  else stats.semaphores.push({ key, limit, holders: holderCount, waiters });
}

function holderOf({ holders: [holder] }: KeyView, now: number) {
  if (!holder) return { owner_conn_id: 0, lease_expires_in_s: 0 };
  return { owner_conn_id: ownerIdOf(holder.session), lease_expires_in_s: seconds(holder.expiresAt - now) };
}

const seconds = (ms: number) => Math.max(0, ms) / 1000;

/** The order of the texts' UTF-8 bytes, which is that of their code points. */
function compareBytes(a: string, b: string): number {
  const [left, right] = [a[Symbol.iterator](), b[Symbol.iterator]()];
  for (;;) {
    const [x, y] = [left.next(), right.next()];
    if (x.done || y.done) return Number(y.done ?? false) - Number(x.done ?? false);
    const difference = (x.value.codePointAt(0) ?? 0) - (y.value.codePointAt(0) ?? 0);
    if (difference !== 0) return difference;
  }
}
