/** The Worker under test: the service, and the class of `holdfast/durable-object` beside it. */
// By name: the tests' runtime reads them here (vitest-plugin 1.1).
export {
  DirectoryObject,
  default,
  HttpSessionObject,
  KeyObject,
  Locks,
  LockWaits,
  MetricsObject,
  RateLimitObject,
  RelayObject,
  SessionObject,
} from "../../src/cloudflare/index.ts";
export { LockKey } from "../../src/cloudflare/lock-key/index.ts";
