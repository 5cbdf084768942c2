/**
 * The one table from what a key or the service decided to what a client is told: the wire protocol's status word, and
 * HTTP's error code, which is undefined if HTTP answers 2xx. No status word is defined anywhere else.
 */
export const STATUSES = {
  ok: { wire: "ok", http: undefined },
  acquired: { wire: "acquired", http: undefined },
  queued: { wire: "queued", http: undefined },
  timeout: { wire: "timeout", http: undefined },
  cancelled: { wire: "cancelled", http: undefined },
  error: { wire: "error", http: "internal" },
  unavailable: { wire: "error", http: "unavailable" },
  fence_persistence: { wire: "error", http: "fence_persistence" },
  not_held: { wire: "error", http: "not_held" },
  auth: { wire: "error_auth", http: "forbidden" },
  max_locks: { wire: "error_max_locks", http: "max_locks" },
  max_waiters: { wire: "error_max_waiters", http: "max_waiters" },
  limit_mismatch: { wire: "error_limit_mismatch", http: "limit_mismatch" },
  not_enqueued: { wire: "error_not_enqueued", http: "not_enqueued" },
  already_enqueued: { wire: "error_already_enqueued", http: "already_enqueued" },
  lease_expired: { wire: "error_lease_expired", http: "lease_expired" },
  draining: { wire: "error_draining", http: "draining" },
} as const;

export type Status = keyof typeof STATUSES;

/** The answer to a request, in any protocol. */
export interface Outcome {
  readonly status: Status;
  readonly token?: string;
  readonly leaseSeconds?: number;
  /** Another client wants the key. Only for a holder that asked to be told. */
  readonly isWanted?: true;
  /** The statistics, as one line of JSON. */
  readonly document?: string;
  /** Why other deployments did not agree; `fence` is that of the holder they named, or 0. */
  readonly refusal?: { readonly status: "refused" | "no_quorum"; readonly fence: bigint };
}

/** A reply line of the wire protocol without its line feed and without a tag. */
export function wireReply(status: Status, ...fields: readonly (string | number)[]): string {
  const { wire } = STATUSES[status];
  return fields.length === 0 ? wire : `${wire} ${fields.join(" ")}`;
}

export function wireReplyOf({ status, token, leaseSeconds, isWanted, document }: Outcome): string {
  let line: string = STATUSES[status].wire;
  if (token !== undefined) line += ` ${token}`;
  if (leaseSeconds !== undefined) line += ` ${leaseSeconds}`;
  if (isWanted) line += " wanted";
  if (document !== undefined) line += ` ${document}`;
  return line;
}
