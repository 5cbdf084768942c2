import { labelsOf } from "../cloudflare/calls/directories.ts";
import type { Env } from "../cloudflare/env.ts";
import type { KeyDescription } from "../cloudflare/key/key-object.ts";
import type { EndReason, HolderView, WaiterView } from "../core/engine/index.ts";
import type { HistoryView, Labels, PastGrant } from "../core/key/history.ts";
import { labelOfTag } from "../core/key/tag-label.ts";
import { ownerIdOf, type SessionlessProtocol, sessionlessProtocolOf } from "../core/session-names.ts";

/** Identifies a holder or waiter. Field order is part of the format. */
export interface Identity {
  owner_conn_id: number;
  /** Only for a holder or waiter without a session. */
  protocol?: SessionlessProtocol;
  label?: string;
}

/** A holder of a slot. Field order is part of the format. */
export interface HolderDetail extends Identity {
  /** 16 hex digits. */
  fence: string;
  /** RFC 3339, UTC. */
  since: string;
  held_s: number;
  /** The length of the lease: that of the grant, or what is left of a longer one set since. */
  lease_s: number;
  lease_expires_in_s: number;
}

/** A waiter for a slot. Field order is part of the format. */
export interface WaiterDetail extends Identity {
  /** 1 is next. */
  position: number;
  /** RFC 3339, UTC. */
  since: string;
  waited_s: number;
  /** Absent for a place without a `wait` yet: it has no deadline. */
  timeout_in_s?: number;
}

/** The members of a key: the first hundred holders and the first hundred of its queue. */
export interface MembersDetail {
  held_by: HolderDetail[];
  queue: WaiterDetail[];
}

/** A past or current grant. Field order is part of the format. */
export interface GrantDetail extends Identity {
  /** 16 hex digits. */
  fence: string;
  /** RFC 3339, UTC. */
  granted_at: string;
  /** Absent if no longer known. */
  waited_s?: number;
  /** Absent, like `ended`, while the slot is held. */
  held_s?: number;
  ended?: EndReason;
}

/** The newest two hundred grants of a key, oldest first. */
export interface HistoryDetail {
  /** The current time of the clock that all times refer to. RFC 3339, UTC. */
  now: string;
  grants: GrantDetail[];
}

/** The labels of all sessions that appear on these keys, looked up at once. */
export function labelsOn(
  env: Env,
  keys: readonly Pick<KeyDescription, "holders" | "queue" | "history">[],
): Promise<Labels> {
  const people = keys.flatMap(({ holders, queue, history }) => [...holders, ...queue, ...(history?.grants ?? [])]);
  return labelsOf(
    env,
    people.map(({ session }) => session),
  );
}

/** The history. Sessions that are gone have the label they were last seen with. */
export function historyOf({ now, grants }: HistoryView, labels: Labels): HistoryDetail {
  return { now: new Date(now).toISOString(), grants: grants.map((grant) => grantDetail(grant, labels)) };
}

export function membersOf(key: Pick<KeyDescription, "holders" | "queue">, labels: Labels, now: number): MembersDetail {
  return {
    held_by: key.holders.map((holder) => holderDetail(holder, labels, now)),
    queue: key.queue.map((waiter, index) => waiterDetail(waiter, index + 1, labels, now)),
  };
}

function grantDetail({ fence, session, label, grantedAt, waitedMs, end }: PastGrant, labels: Labels): GrantDetail {
  return {
    fence,
    ...identityOf(session, labels[session] ?? label),
    granted_at: new Date(grantedAt).toISOString(),
    ...(waitedMs !== undefined && { waited_s: seconds(waitedMs) }),
    ...(end && { held_s: seconds(end.heldMs), ended: end.reason }),
  };
}

function holderDetail(holder: HolderView, labels: Labels, now: number): HolderDetail {
  const { session, fence, since, leaseSeconds, expiresAt, tag } = holder;
  const remaining = seconds(expiresAt - now);
  return {
    ...identityOf(session, labels[session] ?? labelOfTag(tag)),
    fence,
    since: new Date(since).toISOString(),
    held_s: seconds(now - since),
    lease_s: Math.max(leaseSeconds, remaining),
    lease_expires_in_s: remaining,
  };
}

function waiterDetail(
  { session, joinedAt, deadline, tag }: WaiterView,
  position: number,
  labels: Labels,
  now: number,
): WaiterDetail {
  return {
    position,
    ...identityOf(session, labels[session] ?? labelOfTag(tag)),
    since: new Date(joinedAt).toISOString(),
    waited_s: seconds(now - joinedAt),
    ...(deadline !== undefined && { timeout_in_s: seconds(deadline - now) }),
  };
}

export function identityOf(session: string, label: string | undefined): Identity {
  const protocol = sessionlessProtocolOf(session);
  return { owner_conn_id: ownerIdOf(session), ...(protocol && { protocol }), ...(label !== undefined && { label }) };
}

/** Never negative: the clocks of two machines may differ a little. */
export function seconds(ms: number): number {
  return Math.max(0, ms) / 1000;
}
