/** What a Worker exports beside its handlers: the objects, and the entrypoints of service bindings. */
export { DirectoryObject } from "./directory/directory-object.ts";
export { HttpSessionObject } from "./http-session/http-session-object.ts";
export { KeyObject } from "./key/key-object.ts";
export { LockWaits } from "./locks/lock-waits.ts";
export { Locks } from "./locks/locks.ts";
export { MetricsObject } from "./metrics/metrics-object.ts";
export { RateLimitObject } from "./rate-limit.ts";
export { RelayObject } from "./relay/relay-object.ts";
export { SessionObject } from "./session/session-object.ts";
