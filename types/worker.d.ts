/** `holdfast/worker`: the whole service inside your own Worker. docs/workers.md describes it. */
import { DurableObject, WorkerEntrypoint } from "cloudflare:workers";
import type { AcquiredLock, KeyDetail, Keys, LockOptions, LocksOf, RenewOptions } from "./durable-object.d.ts";

export type {
  AcquiredLock,
  HolderDetail,
  KeyDetail,
  KeyOptions,
  Keys,
  LockOptions,
  LocksOf,
  RenewOptions,
  WaiterDetail,
} from "./durable-object.d.ts";

export class KeyObject extends DurableObject<unknown> {}
export class SessionObject extends DurableObject<unknown> {}
export class HttpSessionObject extends DurableObject<unknown> {}
export class DirectoryObject extends DurableObject<unknown> {}
export class MetricsObject extends DurableObject<unknown> {}
export class RateLimitObject extends DurableObject<unknown> {}
export class RelayObject extends DurableObject<unknown> {}

/** The lock inside the callback of `request`. Each property is read with `await`. */
export interface RequestedLock {
  readonly key: Promise<string>;
  readonly token: Promise<string>;
  readonly fence: Promise<string>;
  readonly expiresAt: Promise<number>;
  isHeld(): Promise<boolean>;
}

/**
 * Resolves with a message when one of several locks is lost, and with null once the callback has ended. It stands for an
 * `AbortSignal`, which cannot be sent between Workers.
 */
export type Lost = () => Promise<string | null>;

/** What a service binding with `entrypoint = "Locks"` offers. */
export interface LocksBinding {
  request<Result>(
    key: string,
    options: LockOptions | undefined,
    callback: (lock: RequestedLock) => Result | Promise<Result>,
  ): Promise<Result>;
  /** All keys or none. The locks are in the order of the keys. */
  request<Result, const Several extends Keys>(
    keys: Several,
    options: LockOptions | undefined,
    callback: (locks: LocksOf<Several, RequestedLock>, lost: Lost) => Result | Promise<Result>,
  ): Promise<Result>;
  acquire(key: string, options?: LockOptions): Promise<AcquiredLock | null>;
  renew(key: string, token: string, options?: RenewOptions): Promise<{ readonly remaining: number } | null>;
  release(key: string, token: string): Promise<boolean>;
  describe(key: string): Promise<KeyDetail | null>;
}

/** The entrypoint for service bindings of other Workers. */
export class Locks extends WorkerEntrypoint<unknown> {}
/** Used by `Locks`: export it along with it. */
export class LockWaits extends WorkerEntrypoint<unknown> {}

declare const holdfast: {
  /**
   * Serves a request of the HTTP API, the console or a WebSocket. `env` has the bindings and variables of holdfast. The path may
   * have a beginning of your own, such as `/locks` in `/locks/v1/stats`.
   */
  fetch(request: Request, env: object, ctx: ExecutionContext): Promise<Response>;
};
export default holdfast;
