import { WorkerEntrypoint } from "cloudflare:workers";
import type { ScopeOperation } from "../../core/auth/scope.ts";
import type { Config } from "../../core/config/config.ts";
import type { ClaimCommand, ClaimOutcome } from "../../core/engine/index.ts";
import { randomHex } from "../../core/hex.ts";
import { newSessionlessOwner } from "../../core/session-names.ts";
import { logged } from "../../log.ts";
import { gatherKey, type KeyDetail } from "../../reports/stats.ts";
import type { ClaimEnd } from "../../service.ts";
import { RemoteKeys } from "../calls/remote-keys.ts";
import { type Env, readConfigOf } from "../env.ts";
import { Claims } from "../service/claims.ts";
import { CloudflareKeys } from "../service/keys.ts";
import { checkCallback, checkKey, checkToken, leaseOf, type Terms, termsOf } from "./arguments.ts";
import type { AcquiredLock, LockOptions, LocksProps, RenewOptions } from "./binding.ts";
import { locksError, refusalOf } from "./errors.ts";
import { HeldLock, LockTarget, releaseLock, renewLock } from "./held-lock.ts";
import { waitForLock } from "./lock-waits.ts";
import { checkRights } from "./rights.ts";

/** Shown for a Worker that gives no label. */
const NO_LABEL = "worker";

/** A lock that was granted, and the request that was granted it. */
interface Grant {
  readonly lock: AcquiredLock;
  readonly request: string;
}

/**
 * Locks for other Workers, by a service binding: `entrypoint = "Locks"`. Each call goes straight to the key's object. A
 * caller needs no session: a lock belongs to its token. docs/workers.md describes the calls and their errors.
 */
export class Locks extends WorkerEntrypoint<Env, LocksProps> {
  readonly #keys: RemoteKeys;
  readonly #claims: Claims;

  constructor(ctx: ExecutionContext<LocksProps>, env: Env) {
    super(ctx, env);
    this.#keys = new RemoteKeys(env);
    this.#claims = new Claims(this.#keys, (work) => ctx.waitUntil(work));
  }

  async request(
    key: string,
    options: LockOptions | undefined,
    callback: (lock: LockTarget) => Promise<unknown>,
  ): Promise<unknown> {
    this.#check(key, "lock");
    const terms = termsOf(options);
    checkCallback(callback);
    const grant = await this.#take(key, terms);
    if (!grant)
      throw locksError("LockTimeoutError", `key ${JSON.stringify(key)} was not free within ${terms.waitMs} ms`);
    const running = this.#run(grant, callback);
    // Keeps this call running until the lock is released, also if its caller goes away.
    this.ctx.waitUntil(running.catch(() => {}));
    return running;
  }

  async acquire(key: string, options?: LockOptions): Promise<AcquiredLock | null> {
    this.#check(key, "lock");
    const grant = await this.#take(key, termsOf(options));
    return grant?.lock ?? null;
  }

  async renew(key: string, token: string, options?: RenewOptions): Promise<{ readonly remaining: number } | null> {
    this.#check(key, "lock");
    checkToken(token);
    const lease = leaseOf(options) ?? this.#defaultLeaseMs;
    const isRenewed = await reaching(key, () => renewLock(this.#keys, key, token, lease));
    return isRenewed ? { remaining: lease } : null;
  }

  async release(key: string, token: string): Promise<boolean> {
    this.#check(key, "lock");
    checkToken(token);
    return reaching(key, () => releaseLock(this.#keys, key, token));
  }

  async describe(key: string): Promise<KeyDetail | null> {
    this.#check(key, "stats");
    const keys = new CloudflareKeys(this.env, (work) => this.ctx.waitUntil(work));
    return (await reaching(key, () => gatherKey({ keys }, key))) ?? null;
  }

  get #config(): Config {
    const result = readConfigOf(this.env);
    if (result.ok) return result.config;
    const { name, rule } = result.bad[0];
    throw locksError("UnavailableError", `the variable ${name} of the service ${rule}`);
  }

  get #defaultLeaseMs(): number {
    return this.#config.defaultLeaseSeconds * 1000;
  }

  #check(key: string, operation: ScopeOperation): void {
    checkKey(key);
    checkRights(this.ctx.props, operation, key);
    // While a variable is invalid, no request reaches an object.
    void this.#config;
  }

  /** Takes the lock, waiting if need be; undefined if it was not granted in time. */
  async #take(key: string, { waitMs, leaseMs = this.#defaultLeaseMs, limit, label = NO_LABEL }: Terms) {
    if (this.#config.draining) throw locksError("DrainingError", "the service takes no new work");
    const command: ClaimCommand = {
      session: newSessionlessOwner("worker"),
      request: randomHex(12),
      limit,
      leaseSeconds: leaseMs / 1000,
      waitMs,
      sessionless: { kind: "worker", tag: label, note: "" },
    };
    const askedAt = Date.now();
    const first: ClaimOutcome = await reaching(key, () => this.#claims.attempt(key, command));
    if (first.status === "queued") throw new Error("a claim that may not wait was queued");
    if (first.status !== "would_wait") return grantOf(key, command, first, () => askedAt + leaseMs);
    const left = { ...command, waitMs: Math.max(1, askedAt + waitMs - Date.now()) };
    const end = await reaching(key, () => waitForLock(this.ctx, { key, command: left }));
    // The first call came to the key not before it was made here: that bounds how far the key's clock is ahead of ours.
    return grantOf(key, command, end, (expiresAt) => Math.min(askedAt + (expiresAt - first.at), Date.now() + leaseMs));
  }

  async #run({ lock, request }: Grant, callback: (lock: LockTarget) => Promise<unknown>): Promise<unknown> {
    const held = new HeldLock(this.#keys, lock);
    let result: unknown;
    try {
      result = await held.renewWhile(async () => callback(new LockTarget(held)));
    } catch (error) {
      // Its own error wins over a loss.
      await this.#end(held, request);
      throw error;
    }
    if (await this.#end(held, request)) return result;
    (result as Partial<Disposable> | undefined)?.[Symbol.dispose]?.();
    const why = "was lost before its callback ended";
    throw locksError("LockLostError", `the lock on key ${JSON.stringify(lock.key)} ${why}`);
  }

  /** Ends a hold. False if it was lost before. */
  async #end(held: HeldLock, request: string): Promise<boolean> {
    const { isHeld, acquired } = held;
    try {
      return await held.release();
    } catch (error) {
      logged("release_failed")(error);
      this.ctx.waitUntil(this.#claims.withdraw(acquired.key, request));
      return isHeld;
    }
  }
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

/** Turns a failure to reach the key into an error that says so. */
async function reaching<Answer>(key: string, ask: () => Promise<Answer>): Promise<Answer> {
  try {
    return await ask();
  } catch (error) {
    logged("key_unreachable")(error);
    throw locksError("UnavailableError", `key ${JSON.stringify(key)} cannot be reached: ${error}`);
  }
}
