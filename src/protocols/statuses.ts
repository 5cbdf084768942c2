/**
 * The one table from what a key or the service decided to what a client is told. No status word stands anywhere else.
 */
export const STATUSES = {
  ok: { wire: "ok", http: 200 },
  acquired: { wire: "acquired", http: 200 },
  queued: { wire: "queued", http: 200 },
  timeout: { wire: "timeout", http: 200 },
  error: { wire: "error", http: 500 },
  unavailable: { wire: "error", http: 503 },
  fence_persistence: { wire: "error", http: 503 },
  not_held: { wire: "error", http: 404 },
  auth: { wire: "error_auth", http: 401 },
  max_locks: { wire: "error_max_locks", http: 503 },
  max_waiters: { wire: "error_max_waiters", http: 503 },
  limit_mismatch: { wire: "error_limit_mismatch", http: 409 },
  not_enqueued: { wire: "error_not_enqueued", http: 409 },
  already_enqueued: { wire: "error_already_enqueued", http: 409 },
  lease_expired: { wire: "error_lease_expired", http: 409 },
  draining: { wire: "error_draining", http: 503 },
} as const;

export type Status = keyof typeof STATUSES;

/** A reply line of the wire protocol without its line feed and without a tag. */
export function wireReply(status: Status, ...fields: readonly (string | number)[]): string {
  const { wire } = STATUSES[status];
  return fields.length === 0 ? wire : `${wire} ${fields.join(" ")}`;
}
