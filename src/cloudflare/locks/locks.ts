import { WorkerEntrypoint } from "cloudflare:workers";
import type { ScopeOperation } from "../../core/auth/scope.ts";
import type { Config } from "../../core/config/config.ts";
import { randomHex } from "../../core/hex.ts";
import type { KeyDetail } from "../../reports/stats.ts";
import { type Env, readConfigOf } from "../env.ts";
import { serve } from "../serve.ts";
import { boundWorkerOf } from "../transports/bound-worker.ts";
import { checkCallback, checkKey, checkToken, isSeveral, leaseOf, type Terms, termsOf, wantedOf } from "./arguments.ts";
import type { AcquiredLock, Keys, LockOptions, LocksProps, Lost, RenewOptions } from "./binding.ts";
import { locksError } from "./errors.ts";
import { LockTarget } from "./held-lock.ts";
import { waitForLock } from "./lock-waits.ts";
import { checkRights, principalOf } from "./rights.ts";
import { TokenLocks } from "./token-locks.ts";

type OneCallback = (lock: LockTarget) => Promise<unknown>;
type SeveralCallback = (locks: readonly LockTarget[], lost: Lost) => Promise<unknown>;

/**
 * Locks for other Workers, by a service binding: `entrypoint = "Locks"`. Each call goes straight to the key's object. A
 * caller needs no session: a lock belongs to its token. docs/workers.md describes the calls and their errors.
 */
export class Locks extends WorkerEntrypoint<Env, LocksProps> {
  readonly #locks: TokenLocks;

  constructor(ctx: ExecutionContext<LocksProps>, env: Env) {
    super(ctx, env);
    this.#locks = new TokenLocks(env, {
      waitUntil: (work) => ctx.waitUntil(work),
      wait: (wait, signal) => waitForLock(ctx, wait, signal),
    });
  }

  /** The HTTP API, for `connect(env.LOCKS)` of the client. No token is asked for: the props say what is allowed. */
  override fetch(request: Request): Response | Promise<Response> {
    // Workers have no address: none of them counts for another, unless they say who they are.
    const address = boundWorkerOf(request) ?? `worker ${randomHex(8)}`;
    return serve(request, this.env, this.ctx, { address, principal: principalOf(this.ctx.props) });
  }

  async request(key: string, options: LockOptions | undefined, callback: OneCallback): Promise<unknown>;
  async request(keys: Keys, options: LockOptions | undefined, callback: SeveralCallback): Promise<unknown>;
  async request(
    key: string | Keys,
    options: LockOptions | undefined,
    callback: OneCallback | SeveralCallback,
  ): Promise<unknown> {
    if (isSeveral(key)) return this.#requestSeveral(key, options, callback as SeveralCallback);
    const work = callback as OneCallback;
    this.#check(key, "lock");
    const terms = this.#newWork(options);
    checkCallback(work);
    const grant = await this.#locks.takeOrThrow(key, terms);
    const running = this.#locks.run(grant, async (held) => work(new LockTarget(held)));
    // Keeps this call running until the lock is released, also if its caller goes away.
    this.ctx.waitUntil(running.catch(() => {}));
    return running;
  }

  async acquire(key: string, options?: LockOptions): Promise<AcquiredLock | null> {
    this.#check(key, "lock");
    const grant = await this.#locks.take(key, this.#newWork(options));
    return grant?.lock ?? null;
  }

  async renew(key: string, token: string, options?: RenewOptions): Promise<{ readonly remaining: number } | null> {
    this.#check(key, "lock");
    checkToken(token);
    return this.#locks.renew(key, token, leaseOf(options));
  }

  async release(key: string, token: string): Promise<boolean> {
    this.#check(key, "lock");
    checkToken(token);
    return this.#locks.release(key, token);
  }

  async describe(key: string): Promise<KeyDetail | null> {
    this.#check(key, "stats");
    return this.#locks.describe(key);
  }

  async #requestSeveral(keys: Keys, options: unknown, callback: SeveralCallback): Promise<unknown> {
    const wanted = wantedOf(keys, options);
    for (const { key } of wanted) this.#check(key, "lock");
    this.#checkOpen();
    checkCallback(callback);
    const loss = Promise.withResolvers<string | null>();
    const running = this.#locks.runAll(wanted, async (held, signal) => {
      // From now on as for one key. While keys are waited for, this call ends with its caller, and they learn it.
      this.ctx.waitUntil(running.catch(() => {}));
      signal.addEventListener("abort", () => loss.resolve(signal.reason.message));
      try {
        return await callback(
          held.map((each) => new LockTarget(each)),
          () => loss.promise,
        );
      } finally {
        loss.resolve(null);
      }
    });
    return running;
  }

  get #config(): Config {
    const result = readConfigOf(this.env);
    if (result.ok) return result.config;
    const { name, rule } = result.bad[0];
    throw locksError("UnavailableError", `the variable ${name} of the service ${rule}`);
  }

  #check(key: string, operation: ScopeOperation): void {
    checkKey(key);
    checkRights(this.ctx.props, operation, key);
    // While a variable is invalid, no request reaches an object.
    void this.#config;
  }

  #newWork(options: LockOptions | undefined): Terms {
    const terms = termsOf(options);
    this.#checkOpen();
    return terms;
  }

  #checkOpen(): void {
    if (this.#config.draining) throw locksError("DrainingError", "the service takes no new work");
  }
}
