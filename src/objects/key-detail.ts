import type { HolderView, WaiterView } from "../engine/index.ts";
import { type Labels, labelsOf } from "./directories.ts";
import type { ListedKey } from "./directory.ts";
import type { Env } from "./env.ts";
import { ownerIdOf } from "./owner.ts";

/** Who holds a slot. Field order is part of the format. */
export interface HolderDetail {
  owner_conn_id: number;
  label?: string;
  /** 16 hex digits. */
  fence: string;
  /** RFC 3339, UTC. */
  since: string;
  held_s: number;
  lease_expires_in_s: number;
}

/** Who waits for a slot. Field order is part of the format. */
export interface WaiterDetail {
  /** 1 is next. */
  position: number;
  owner_conn_id: number;
  label?: string;
  /** RFC 3339, UTC. */
  since: string;
  waited_s: number;
  /** Absent for a place that nobody waits on yet: it has no deadline. */
  timeout_in_s?: number;
}

/** The members of a key: the first hundred holders and the first hundred of its queue. */
export interface MembersDetail {
  held_by: HolderDetail[];
  queue: WaiterDetail[];
}

/** What the members of these keys call themselves, looked up once for all. */
export function labelsOn(env: Env, keys: readonly Pick<ListedKey, "holders" | "queue">[]): Promise<Labels> {
  const members = keys.flatMap(({ holders, queue }) => [...holders, ...queue]);
  return labelsOf(
    env,
    members.map(({ session }) => session),
  );
}

export function membersOf(key: Pick<ListedKey, "holders" | "queue">, labels: Labels, now: number): MembersDetail {
  return {
    held_by: key.holders.map((holder) => holderDetail(holder, labels, now)),
    queue: key.queue.map((waiter, index) => waiterDetail(waiter, index + 1, labels, now)),
  };
}

function holderDetail({ session, fence, since, expiresAt }: HolderView, labels: Labels, now: number): HolderDetail {
  return {
    ...identityOf(session, labels),
    fence,
    since: new Date(since).toISOString(),
    held_s: seconds(now - since),
    lease_expires_in_s: seconds(expiresAt - now),
  };
}

function waiterDetail(
  { session, joinedAt, deadline }: WaiterView,
  position: number,
  labels: Labels,
  now: number,
): WaiterDetail {
  return {
    position,
    ...identityOf(session, labels),
    since: new Date(joinedAt).toISOString(),
    waited_s: seconds(now - joinedAt),
    ...(deadline !== undefined && { timeout_in_s: seconds(deadline - now) }),
  };
}

function identityOf(session: string, labels: Labels): { owner_conn_id: number; label?: string } {
  const label = labels[session];
  return { owner_conn_id: ownerIdOf(session), ...(label !== undefined && { label }) };
}

/** Clocks of two machines may differ by a little: never below zero. */
export function seconds(ms: number): number {
  return Math.max(0, ms) / 1000;
}
