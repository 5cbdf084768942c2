import { compareBytes } from "../../core/byte-order.ts";
import type { ClaimCommand, ClaimOutcome } from "../../core/engine/index.ts";
import { randomHex } from "../../core/hex.ts";
import { newSessionlessOwner } from "../../core/session-names.ts";
import { logged } from "../../log.ts";
import { gatherKey, type KeyDetail } from "../../reports/stats.ts";
import type { ClaimEnd } from "../../service.ts";
import { RemoteKeys } from "../calls/remote-keys.ts";
import { configOf, type PartialEnv } from "../env.ts";
import { Claims } from "../service/claims.ts";
import type { WaitUntil } from "../service/cloudflare-service.ts";
import { CloudflareKeys } from "../service/keys.ts";
import type { Terms, WantedKey } from "./arguments.ts";
import type { AcquiredLock } from "./binding.ts";
import { locksError, refusalOf } from "./errors.ts";
import { HeldLock, releaseLock, renewLock } from "./held-lock.ts";
import { Presence } from "./presence.ts";

/** Shown for a Worker that gives no label. */
const NO_LABEL = "worker";

/** A lock that was granted, and the request that was granted it. */
export interface Grant {
  readonly lock: AcquiredLock;
  readonly request: string;
}

/** A claim that has to wait. */
export interface Wait {
  readonly key: string;
  readonly command: ClaimCommand;
}

/** A lock that is renewed. */
interface Holding {
  readonly held: HeldLock;
  readonly request: string;
  readonly renewing: Promise<void>;
  /** The work was told that it is lost. */
  isReported: boolean;
}

/** When to give up. */
interface Limits {
  /** The default is that of the terms, from now on. */
  readonly until?: number;
  /** Ends the wait with its reason. */
  readonly signal?: AbortSignal;
}

/** What differs between a service that is bound and a Worker with keys of its own. */
interface Caller {
  readonly waitUntil: WaitUntil;
  /** Waits for a lock. If the caller leaves meanwhile, its place is given up. Rejects if the signal aborts. */
  wait(wait: Wait, signal: AbortSignal | undefined): Promise<ClaimEnd>;
  /** What is wrong with the setup if a call fails like this; undefined if it is not the setup. */
  faultIn?(error: unknown): Error | undefined;
}

/** Locks that belong to their tokens: each call goes straight to the key's object. */
export class TokenLocks {
  readonly keys: RemoteKeys;
  readonly #env: PartialEnv;
  readonly #claims: Claims;
  readonly #caller: Caller;

  constructor(env: PartialEnv, caller: Caller) {
    this.#env = env;
    this.keys = new RemoteKeys(env);
    this.#claims = new Claims(this.keys, caller.waitUntil);
    this.#caller = caller;
  }

  /** Takes the lock, waiting if need be; undefined if it was not granted in time. */
  async take(
    key: string,
    { waitMs, leaseMs = this.#defaultLeaseMs, limit, label = NO_LABEL }: Terms,
    { until = Date.now() + waitMs, signal }: Limits = {},
  ): Promise<Grant | undefined> {
    const command: ClaimCommand = {
      session: newSessionlessOwner("worker"),
      request: randomHex(12),
      limit,
      leaseSeconds: leaseMs / 1000,
      waitMs,
      sessionless: { kind: "worker", tag: label, note: "" },
    };
    const askedAt = Date.now();
    const first: ClaimOutcome = await this.#reach(key, () => this.#claims.attempt(key, command));
    if (first.status === "queued") throw new Error("a claim that may not wait was queued");
    if (first.status !== "would_wait") return grantOf(key, command, first, () => askedAt + leaseMs);
    signal?.throwIfAborted();
    const left = { ...command, waitMs: Math.max(1, until - Date.now()) };
    const end = await this.#reach(key, () => this.#waitOrWithdraw({ key, command: left }, signal));
    if (end.status === "left") signal?.throwIfAborted();
    // The first call came to the key not before it was made here: that bounds how far the key's clock is ahead of ours.
    return grantOf(key, command, end, (expiresAt) => Math.min(askedAt + (expiresAt - first.at), Date.now() + leaseMs));
  }

  /** Like `take`, for a caller that cannot go on without the lock. */
  async takeOrThrow(key: string, terms: Terms, limits?: Limits): Promise<Grant> {
    const grant = await this.take(key, terms, limits);
    if (grant) return grant;
    throw locksError("LockTimeoutError", `key ${JSON.stringify(key)} was not free within ${terms.waitMs} ms`);
  }

  async renew(
    key: string,
    token: string,
    leaseMs = this.#defaultLeaseMs,
  ): Promise<{ readonly remaining: number } | null> {
    const isRenewed = await this.#reach(key, () => renewLock(this.keys, key, token, leaseMs));
    return isRenewed ? { remaining: leaseMs } : null;
  }

  release(key: string, token: string): Promise<boolean> {
    return this.#reach(key, () => releaseLock(this.keys, key, token));
  }

  async describe(key: string): Promise<KeyDetail | null> {
    const keys = new CloudflareKeys(this.#env, this.#caller.waitUntil);
    return (await this.#reach(key, () => gatherKey({ keys }, key))) ?? null;
  }

  /** Renews the lock while the work runs, and releases it at the end. Rejects if it was lost before that. */
  run<Result>(grant: Grant, work: (held: HeldLock) => Promise<Result>): Promise<Result> {
    return this.#whileHeld(async (hold) => work(hold(grant)));
  }

  /**
   * Takes the keys one after another, in one order for all callers, and runs the work while all of them are held. If one is
   * not granted, or is lost meanwhile, those taken before are released. The signal aborts when one is lost later.
   */
  runAll<Result>(
    wanted: readonly WantedKey[],
    work: (held: readonly HeldLock[], signal: AbortSignal) => Promise<Result>,
  ): Promise<Result> {
    const since = Date.now();
    const losing = new AbortController();
    const presences: Presence[] = [];
    /** In the order given. Until all are held, some are missing. */
    const all: HeldLock[] = [];
    const running = this.#whileHeld(async (hold) => {
      for (const each of wanted.toSorted((a, b) => compareBytes(a.key, b.key))) {
        const { key, terms } = each;
        const grant = await this.takeOrThrow(key, terms, { until: since + terms.waitMs, signal: losing.signal });
        const presence = new Presence();
        presences.push(presence);
        // If the caller leaves while the next key is waited for, this one has to learn it.
        this.#caller.waitUntil(presence.open(this.keys, key, grant.request).catch(logged("key_unreachable")));
        all[wanted.indexOf(each)] = hold(grant, () => losing.abort(lossOf(key)));
        losing.signal.throwIfAborted();
      }
      return work(all, losing.signal);
    });
    return running.finally(() => {
      for (const presence of presences) presence.end();
    });
  }

  get #defaultLeaseMs(): number {
    return configOf(this.#env).defaultLeaseSeconds * 1000;
  }

  /** Ends a hold. False if it was lost before. If the key cannot be reached, that goes on in the background. */
  async end(held: HeldLock, request: string): Promise<boolean> {
    const { isHeld, acquired } = held;
    try {
      return await held.release();
    } catch (error) {
      logged("release_failed")(error);
      this.#caller.waitUntil(this.#claims.withdraw(acquired.key, request));
      return isHeld;
    }
  }

  /**
   * Runs work that holds locks: each is renewed from then on, and all are released when the work has ended. Rejects if one
   * was lost before that. `lost` is called as soon as that is known.
   */
  async #whileHeld<Result>(
    work: (hold: (grant: Grant, lost?: () => void) => HeldLock) => Promise<Result>,
  ): Promise<Result> {
    const ending = new AbortController();
    const ended = ending.signal;
    const holds: Holding[] = [];
    const hold = ({ lock, request }: Grant, lost?: () => void) => {
      const held = new HeldLock(this.keys, lock);
      const holding: Holding = { held, request, renewing: held.renewUntil(ended), isReported: false };
      const report = () => {
        if (ended.aborted || held.isHeld) return;
        holding.isReported = true;
        lost?.();
      };
      if (lost) void Promise.race([holding.renewing, held.expiry(ended)]).then(report);
      holds.push(holding);
      return held;
    };
    const end = async () => {
      ending.abort();
      await Promise.all(holds.map(({ renewing }) => renewing));
      return Promise.all(holds.map(({ held, request }) => this.end(held, request)));
    };
    let result: Result;
    try {
      result = await work(hold);
    } catch (error) {
      // Its own error wins over a loss.
      await end();
      throw error;
    }
    const released = await end();
    const lost = holds.find(({ isReported }, at) => isReported || !released[at]);
    if (!lost) return result;
    (result as Partial<Disposable> | undefined)?.[Symbol.dispose]?.();
    throw lossOf(lost.held.acquired.key);
  }

  async #waitOrWithdraw(wait: Wait, signal: AbortSignal | undefined): Promise<ClaimEnd> {
    try {
      return await this.#caller.wait(wait, signal);
    } catch (error) {
      this.#caller.waitUntil(this.#claims.withdraw(wait.key, wait.command.request));
      if (signal?.aborted) return { status: "left" };
      throw error;
    }
  }

  /** Turns a failure to reach the key into an error that says so. */
  async #reach<Answer>(key: string, ask: () => Promise<Answer>): Promise<Answer> {
    try {
      return await ask();
    } catch (error) {
      const fault = this.#caller.faultIn?.(error);
      if (fault) throw fault;
      logged("key_unreachable")(error);
      throw locksError("UnavailableError", `key ${JSON.stringify(key)} cannot be reached: ${error}`);
    }
  }
}

function lossOf(key: string): Error {
  return locksError("LockLostError", `the lock on key ${JSON.stringify(key)} was lost before its callback ended`);
}

/** The grant of a decided claim; undefined if it was not granted in time. `endOf` tells when it ends by our clock. */
function grantOf(
  key: string,
  { request, leaseSeconds, limit = 1 }: ClaimCommand,
  end: ClaimEnd,
  endOf: (expiresAt: number) => number,
): Grant | undefined {
  if (end.status === "timeout") return undefined;
  if (end.status !== "granted") throw refusalOf(key, end, limit);
  const { token, hold } = end;
  const lock = { key, token, fence: hold.fence, lease: leaseSeconds * 1000, expiresAt: endOf(hold.expiresAt) };
  return { lock, request };
}
