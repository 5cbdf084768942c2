import type { KeyRequest } from "../../core/session/key-calls.ts";
import type { RequestId, RequestOf } from "../openapi/schemas.ts";

/** Operations that a session performs on a key. */
export type KeyOperationId = Exclude<RequestId, "createSession" | "createTicket">;

/** In HTTP a lease of 0 means the default lease; internally it is undefined then. */
const leaseOf = ({ lease_ttl_s }: { readonly lease_ttl_s: number }) => (lease_ttl_s === 0 ? undefined : lease_ttl_s);

const wait = (key: string, body: RequestOf<"waitLock">): KeyRequest => ({
  type: "wait",
  key,
  waitSeconds: body.timeout_s,
});
const release = (key: string, { token }: RequestOf<"releaseLock">): KeyRequest => ({ type: "release", key, token });
const renew = (key: string, body: RequestOf<"renewLock">): KeyRequest => ({
  type: "renew",
  key,
  token: body.token,
  leaseSeconds: leaseOf(body),
});
const acquire = (key: string, limit: number, body: RequestOf<"acquireLock">): KeyRequest => ({
  type: "acquire",
  key,
  limit,
  waitSeconds: body.acquire_timeout_s,
  leaseSeconds: leaseOf(body),
});
const enqueue = (key: string, limit: number, body: RequestOf<"enqueueLock">): KeyRequest => ({
  type: "enqueue",
  key,
  limit,
  leaseSeconds: leaseOf(body),
});

/** Turns the validated body of each operation into a request to its key. A lock is a semaphore with one slot. */
export const KEY_REQUESTS: { readonly [Id in KeyOperationId]: (key: string, body: RequestOf<Id>) => KeyRequest } = {
  acquireLock: (key, body) => acquire(key, 1, body),
  acquireSem: (key, body) => acquire(key, body.limit, body),
  enqueueLock: (key, body) => enqueue(key, 1, body),
  enqueueSem: (key, body) => enqueue(key, body.limit, body),
  waitLock: wait,
  waitSem: wait,
  releaseLock: release,
  releaseSem: release,
  renewLock: renew,
  renewSem: renew,
};

export function familyOf(id: KeyOperationId): "lock" | "semaphore" {
  return id.endsWith("Sem") ? "semaphore" : "lock";
}
