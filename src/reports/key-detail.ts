import type { EndReason, HolderView, WaiterView } from "../core/engine/index.ts";
import type { HistoryView, PastGrant } from "../core/key/history.ts";
import { labelOfTag } from "../core/key/tag-label.ts";
import { ownerIdOf, type SessionlessProtocol, sessionlessProtocolOf } from "../core/session-names.ts";
import type { KeyReport, Labelled } from "../service.ts";

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

/** The history. Sessions that are gone have the label they were last seen with. */
export function historyOf({ now, grants }: HistoryView): HistoryDetail {
  return { now: new Date(now).toISOString(), grants: grants.map(grantDetail) };
}

export function membersOf({ holders, queue }: Pick<KeyReport, "holders" | "queue">, now: number): MembersDetail {
  return {
    held_by: holders.map((holder) => holderDetail(holder, now)),
    queue: queue.map((waiter, index) => waiterDetail(waiter, index + 1, now)),
  };
}

function grantDetail({ fence, session, label, grantedAt, waitedMs, end }: PastGrant): GrantDetail {
  return {
    fence,
    ...identityOf(session, label),
    granted_at: new Date(grantedAt).toISOString(),
    ...(waitedMs !== undefined && { waited_s: seconds(waitedMs) }),
    ...(end && { held_s: seconds(end.heldMs), ended: end.reason }),
  };
}

function holderDetail(holder: Labelled<HolderView>, now: number): HolderDetail {
  const { session, fence, since, leaseSeconds, expiresAt, tag, label } = holder;
  const remaining = seconds(expiresAt - now);
  return {
    ...identityOf(session, label ?? labelOfTag(tag)),
    fence,
    since: new Date(since).toISOString(),
    held_s: seconds(now - since),
    lease_s: Math.max(leaseSeconds, remaining),
    lease_expires_in_s: remaining,
  };
}

function waiterDetail(
  { session, joinedAt, deadline, tag, label }: Labelled<WaiterView>,
  position: number,
  now: number,
): WaiterDetail {
  return {
    position,
    ...identityOf(session, label ?? labelOfTag(tag)),
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
