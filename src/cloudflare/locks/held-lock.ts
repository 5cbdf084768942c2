import { RpcTarget } from "cloudflare:workers";
import { newSessionlessOwner } from "../../core/session-names.ts";
import { logged } from "../../log.ts";
import type { RemoteKeys } from "../calls/remote-keys.ts";
import type { AcquiredLock } from "./binding.ts";

/** Renewals within a lease. */
const RENEWALS = 3;
/** Timers do not take longer ones. */
const MAX_PAUSE_MS = 3_600_000;
/** Pause after a renewal that could not be made. */
const MAX_RETRY_PAUSE_MS = 1_000;

/** A lock while the callback of `request` runs. */
export class HeldLock {
  readonly #keys: RemoteKeys;
  readonly #acquired: AcquiredLock;
  #expiresAt: number;
  /** The key has said that the token is not held. */
  #isLost = false;

  constructor(keys: RemoteKeys, acquired: AcquiredLock) {
    this.#keys = keys;
    this.#acquired = acquired;
    this.#expiresAt = acquired.expiresAt;
  }

  get acquired(): AcquiredLock {
    return this.#acquired;
  }

  get expiresAt(): number {
    return this.#expiresAt;
  }

  get isHeld(): boolean {
    return !this.#isLost && Date.now() < this.#expiresAt;
  }

  /** Renews the lock until the work has ended, or it is lost. */
  async renewUntil(ended: AbortSignal): Promise<void> {
    const { key, token, lease } = this.#acquired;
    let pauseMs = lease / RENEWALS;
    while (!this.#isLost && (await isStillOn(ended, pauseMs))) {
      const askedAt = Date.now();
      try {
        const isRenewed = await renewLock(this.#keys, key, token, lease);
        this.#isLost = !isRenewed;
        if (isRenewed) this.#expiresAt = askedAt + lease;
        pauseMs = lease / RENEWALS;
      } catch (error) {
        logged("renewal_failed")(error);
        pauseMs = Math.min(lease / RENEWALS / RENEWALS, MAX_RETRY_PAUSE_MS);
      }
    }
  }

  /** Resolves when the lease has ended without a renewal, or the work has ended. */
  async expiry(ended: AbortSignal): Promise<void> {
    let isOn = true;
    while (isOn && this.#expiresAt > Date.now()) isOn = await isStillOn(ended, this.#expiresAt - Date.now());
  }

  /** Releases the lock. False if it was lost before. Rejects if the key cannot be reached. */
  async release(): Promise<boolean> {
    if (this.#isLost) return false;
    const { key, token } = this.#acquired;
    return releaseLock(this.#keys, key, token);
  }
}

/** The lock as the callback gets it. Only getters and methods of the class are visible over RPC. */
export class LockTarget extends RpcTarget {
  readonly #lock: HeldLock;

  constructor(lock: HeldLock) {
    super();
    this.#lock = lock;
  }

  get key(): string {
    return this.#lock.acquired.key;
  }

  get token(): string {
    return this.#lock.acquired.token;
  }

  get fence(): string {
    return this.#lock.acquired.fence;
  }

  get expiresAt(): number {
    return this.#lock.expiresAt;
  }

  isHeld(): boolean {
    return this.#lock.isHeld;
  }
}

/** True if the token was held. */
export async function releaseLock(keys: RemoteKeys, key: string, token: string): Promise<boolean> {
  const session = newSessionlessOwner("worker");
  return (await keys.command(key, { type: "release", token, session })).status === "released";
}

/** True if the token is held. The lease starts again. */
export async function renewLock(keys: RemoteKeys, key: string, token: string, leaseMs: number): Promise<boolean> {
  const leaseSeconds = leaseMs / 1000;
  return (await keys.command(key, { type: "renew", token, leaseSeconds })).status === "renewed";
}

/** Resolves after a pause, or at once with false when the work has ended. */
async function isStillOn(ended: AbortSignal, pauseMs: number): Promise<boolean> {
  try {
    await scheduler.wait(Math.min(pauseMs, MAX_PAUSE_MS), { signal: ended });
  } catch {
    return false;
  }
  return !ended.aborted;
}
