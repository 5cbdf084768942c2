import type { Holder, Waiter } from "../../client/index.ts";
import type { HttpService } from "./http.ts";

/** A key that is in use, with its holders and queue (the first hundred of each). */
export interface KeyInUse {
  readonly key: string;
  readonly limit: number;
  /** The number of all holders and waiters, including those not listed. */
  readonly holders: number;
  readonly waiters: number;
  readonly held_by: readonly Holder[];
  readonly queue: readonly Waiter[];
}

interface Detail {
  readonly key: string;
  readonly waiters: number;
  readonly held_by: readonly Holder[];
  readonly queue: readonly Waiter[];
}

/** `GET /v1/stats?detail=true`. */
export interface DetailedStats {
  readonly connections: number;
  readonly locks: readonly (Detail & { readonly owner_conn_id: number })[];
  readonly semaphores: readonly (Detail & { readonly limit: number; readonly holders: number })[];
  readonly idle_locks: readonly unknown[];
  readonly idle_semaphores: readonly unknown[];
  readonly unreachable_count?: number;
  readonly next_cursor?: string;
}

export interface KeyPage {
  readonly connections: number;
  readonly keys: readonly KeyInUse[];
  /** The number of keys with neither holder nor waiter, and of those that cannot be read. */
  readonly idle: number;
  readonly unreachable: number;
  readonly next: string | undefined;
}

/** One page of keys, ordered by bytes. */
export async function pageOfKeys(
  service: HttpService,
  prefix: string,
  limit: number,
  after?: string,
): Promise<KeyPage> {
  const query = new URLSearchParams({ detail: "true", prefix, limit: String(limit) });
  if (after !== undefined) query.set("cursor", after);
  const stats = await service.ask<DetailedStats>(`/v1/stats?${query}`);
  return {
    connections: stats.connections,
    keys: keysIn(stats),
    idle: stats.idle_locks.length + stats.idle_semaphores.length,
    unreachable: stats.unreachable_count ?? 0,
    next: stats.next_cursor,
  };
}

function keysIn({ locks, semaphores }: DetailedStats): KeyInUse[] {
  const all = [
    ...locks.map((lock) => keyOf(lock, 1, lock.owner_conn_id === 0 ? 0 : 1)),
    ...semaphores.map((each) => keyOf(each, each.limit, each.holders)),
  ];
  return all.sort((a, b) => Buffer.compare(Buffer.from(a.key), Buffer.from(b.key)));
}

function keyOf({ key, waiters, held_by, queue }: Detail, limit: number, holders: number): KeyInUse {
  return { key, limit, holders, waiters, held_by, queue };
}

/** A client's display name: its label, or its session number. Clients without a session are `file` or `terraform`. */
export function nameOf({
  label,
  protocol,
  owner_conn_id,
}: Pick<Holder, "label" | "protocol" | "owner_conn_id">): string {
  return label || (protocol ?? `session ${owner_conn_id}`);
}

/** A fence, the first half of a token, in decimal, as in `HOLDFAST_FENCE` and all output of commands. */
export function fenceOf(token: string): string {
  return BigInt(`0x${token.slice(0, 16)}`).toString();
}
