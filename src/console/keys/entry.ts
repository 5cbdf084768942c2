import type { Holder, Waiter } from "../../client/report.ts";

/** A key as the list shows it. */
export interface KeyEntry {
  readonly key: string;
  readonly kind: "lock" | "semaphore";
  /** Undefined for an idle semaphore: the report does not contain it. */
  readonly limit: number | undefined;
  readonly holders: number;
  readonly waiters: number;
  /** The first holders. */
  readonly heldBy: readonly Holder[];
  /** The first waiters. */
  readonly queue: readonly Waiter[];
  /** Seconds since the last use; undefined while there are holders or waiters. */
  readonly idleSeconds: number | undefined;
  /** When this was received, by the page's clock. */
  readonly at: number;
}

interface Members {
  readonly held_by?: readonly Holder[];
  readonly queue?: readonly Waiter[];
}

/** A page of `GET /v1/stats?detail=true`, as far as the list needs it. */
export interface StatsPage {
  readonly locks: readonly (Members & {
    readonly key: string;
    readonly owner_conn_id: number;
    readonly waiters: number;
  })[];
  readonly semaphores: readonly (Members & {
    readonly key: string;
    readonly limit: number;
    readonly holders: number;
    readonly waiters: number;
  })[];
  readonly idle_locks: readonly IdleKey[];
  readonly idle_semaphores: readonly IdleKey[];
  readonly next_cursor?: string;
}

interface IdleKey {
  readonly key: string;
  readonly idle_s: number;
}

/** All keys of a page in one list, in the service's order. */
export function entriesOf(page: StatsPage, at: number): KeyEntry[] {
  const idle = (kind: KeyEntry["kind"], limit: number | undefined) => (entry: IdleKey) => ({
    key: entry.key,
    kind,
    limit,
    holders: 0,
    waiters: 0,
    heldBy: [],
    queue: [],
    idleSeconds: entry.idle_s,
    at,
  });
  const used = { idleSeconds: undefined, at };
  return [
    ...page.locks.map(({ key, owner_conn_id, waiters, held_by: heldBy = [], queue = [] }) => {
      const holders = owner_conn_id === 0 ? 0 : 1;
      return { key, kind: "lock" as const, limit: 1, holders, waiters, heldBy, queue, ...used };
    }),
    ...page.semaphores.map(({ key, limit, holders, waiters, held_by: heldBy = [], queue = [] }) => {
      return { key, kind: "semaphore" as const, limit, holders, waiters, heldBy, queue, ...used };
    }),
    ...page.idle_locks.map(idle("lock", 1)),
    ...page.idle_semaphores.map(idle("semaphore", undefined)),
  ].sort((a, b) => compareKeys(a.key, b.key));
}

/** Compares by UTF-8 bytes, which is the order of code points: surrogate pairs come last. */
export function compareKeys(a: string, b: string): number {
  for (let at = 0; at < a.length && at < b.length; at += 1) {
    const difference = rank(a.charCodeAt(at)) - rank(b.charCodeAt(at));
    if (difference !== 0) return difference;
  }
  return a.length - b.length;
}

function rank(unit: number): number {
  const isSurrogate = unit >= 0xd800 && unit <= 0xdfff;
  return isSurrogate ? unit + 0x10000 : unit;
}
