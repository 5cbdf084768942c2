/** The declarations that the package ships, beside what they declare. */
import { expect, it } from "vitest";
import * as lockKey from "../../../src/cloudflare/lock-key/index.ts";
import type { LocksBinding } from "../../../src/cloudflare/locks/binding.ts";
import * as worker from "../../../src/cloudflare/worker.ts";
import type * as toldLockKey from "../../../types/durable-object.d.ts";
import type * as toldWorker from "../../../types/worker.d.ts";

// The type checker compares them: what is told must be what there is.
const locks: typeof toldLockKey.locks = lockKey.locks;
const binding = (real: LocksBinding): toldWorker.LocksBinding => real;
const { fetch }: typeof toldWorker.default = worker.default as typeof toldWorker.default;

it("name everything that the modules export, and nothing else", async () => {
  expect([typeof locks, typeof binding, typeof fetch]).toEqual(["function", "function", "function"]);
  const toldOfKey: Record<keyof typeof toldLockKey, true> = { LockKey: true, locks: true };
  expect(Object.keys(lockKey).toSorted()).toEqual(Object.keys(toldOfKey).toSorted());
  const toldOfWorker: Record<keyof typeof toldWorker, true> = {
    DirectoryObject: true,
    HttpSessionObject: true,
    KeyObject: true,
    Locks: true,
    LockWaits: true,
    MetricsObject: true,
    RateLimitObject: true,
    RelayObject: true,
    SessionObject: true,
    default: true,
  };
  expect(Object.keys(worker).toSorted()).toEqual(Object.keys(toldOfWorker).toSorted());
});
