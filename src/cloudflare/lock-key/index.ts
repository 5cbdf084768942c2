/** `holdfast/durable-object`: locks in one's own Worker, with one class and one migration. docs/workers.md describes it. */
export { LockKey } from "./lock-key.ts";
export { locks } from "./locks.ts";
