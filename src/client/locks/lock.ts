import { elapsedMs, type Moment, momentOf, within } from "../clock.ts";
import { LockLostError, type LossReason } from "../errors.ts";
import { RELEASED_WITHIN_MS } from "../limits.ts";
import { FOREVER_MS } from "../wire.ts";
import { type ClientContext, type LockTarget, releaseToken } from "./client-context.ts";
import { type Lease, leaseOf } from "./lease.ts";

/** A grant. A sticky one is passed from one `Lock` to the next. */
export interface Hold {
  readonly place: LockTarget;
  readonly token: string;
  lease: Lease;
  /** The `Lock` that has it now. */
  lock?: Lock;
  /** Stops the timer. When it fires, it checks the current `lock`. */
  stop?: (() => void) | undefined;
  isRenewing?: boolean;
  /** The service has refused a renewal or a release once; it is asked again. */
  isRefused?: boolean;
}

export interface HoldOptions {
  /** Milliseconds after which the lock is lost even if its holder is alive. */
  readonly maxHold?: number | undefined;
  /** No callback runs: it is released as soon as another client wants it. */
  readonly isIdle?: boolean;
  /** Called when this `Lock` was released, lost or passed on. */
  readonly ended?: (() => unknown) | undefined;
}

/** The method by which Node, Deno and Bun print an object. */
const INSPECT = Symbol.for("nodejs.util.inspect.custom");

/**
 * A lock, or one slot of a semaphore, that is held. It is renewed until it is released or lost. It never counts as held
 * for longer than the service keeps it: without an answer from the service it is lost before its lease ends.
 */
export class Lock implements AsyncDisposable {
  /** The key that is held. */
  readonly key: string;
  /** Resolves with a `LockLostError` when the lock is lost. Never rejects; stays pending when the lock is released. */
  readonly lost: Promise<LockLostError>;
  /** Another client wants it. @internal */
  isWanted: boolean;
  readonly #client: ClientContext;
  readonly #hold: Hold;
  readonly #options: HoldOptions;
  readonly #heldSince: Moment;
  #loss: LockLostError | undefined;
  #resolveLost: (error: LockLostError) => void = () => {};
  /** Created on first use: most locks are held too briefly to need it. */
  #lossController: AbortController | undefined;
  #isOver = false;
  #released: Promise<boolean> | undefined;

  /** @internal */
  constructor(client: ClientContext, hold: Hold, options: HoldOptions) {
    this.#client = client;
    this.#hold = hold;
    this.#options = options;
    hold.lock = this;
    this.isWanted = hold.lease.isWanted;
    this.key = hold.place.key;
    this.#heldSince = momentOf(client.clock);
    this.lost = new Promise((resolve) => {
      this.#resolveLost = resolve;
    });
    client.hold(this);
    // The last `Lock` of a sticky grant may have been too short for its timer to fire: a renewal may be due.
    this.check(this.#heldSince);
  }

  /** The secret of this grant: any client that presents it may release the lock. Not shown when the lock is logged. */
  get token(): string {
    return this.#hold.token;
  }

  /** Aborts when the lock is lost, with a `LockLostError`; not when it is released. */
  get signal(): AbortSignal {
    this.#lossController ??= new AbortController();
    if (this.#loss) this.#lossController.abort(this.#loss);
    return this.#lossController.signal;
  }

  /** 16 hex digits, increasing as text with every grant of the key: the protected resource should refuse lower ones. */
  get fence(): string {
    return this.token.slice(0, 16);
  }

  /** How long the service keeps the lock without a renewal, in milliseconds. */
  get lease(): number {
    return this.#hold.lease.ms;
  }

  /**
   * When the lock ends unless it is renewed, in milliseconds of `Date.now()`. Every renewal moves it, but not past the end
   * of `maxHold`. A little earlier than at the service. The lock may be lost before: see `isHeld`.
   */
  get expiresAt(): number {
    return Math.floor(this.#client.clock.wall() + Math.min(this.#hold.lease.remainingMs(), this.#leftMs()));
  }

  /** False as soon as, by the clock, another client may hold the lock, even if the loss is not reported yet. */
  get isHeld(): boolean {
    const { isRefused, lease } = this.#hold;
    return !this.#isOver && !isRefused && lease.remainingMs() > 0 && !this.#client.isLapsed;
  }

  /**
   * Releases the lock. Resolves with true once the service has confirmed it, and with false if the lock was lost before, or
   * if the service does not answer within five seconds: the lock then ends with its lease at the latest. Never rejects;
   * calling it again changes nothing.
   */
  release(): Promise<boolean> {
    this.#released ??= this.#isOver ? Promise.resolve(false) : this.#releaseToken();
    return this.#released;
  }

  /** As `release`, at the end of an `await using` block. Resolves with nothing; never rejects. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.release();
  }

  /** For logs: key, fence and `isHeld`, without the token. In Node, `console.log` shows the same. */
  toJSON(): { key: string; fence: string; isHeld: boolean } {
    const { key, fence, isHeld } = this;
    return { key, fence, isHeld };
  }

  /** @internal */
  [INSPECT](_: number, options: object, inspect: (value: unknown, options: object) => string): string {
    return `Lock ${inspect(this.toJSON(), options)}`;
  }

  /** Releases the lock after a callback. Resolves with the loss if the callback may have run without the lock. @internal */
  async finish(): Promise<LockLostError | undefined> {
    const wasOver = this.#isOver;
    const wasHeld = this.isHeld;
    if ((await this.release()) || wasOver) return this.#loss;
    // A notice of loss may be in flight. But `error` also stands for a failure of the service, so ask twice.
    if (this.#hold.isRefused && (await this.#releaseToken())) return undefined;
    if (wasHeld && !this.#hold.isRefused) return undefined;
    return new LockLostError(this.key, this.#client.losses.get(this.token) ?? this.#localReason);
  }

  /** Renews the lock or gives it up, by the clock, however late it is called. @internal */
  check(now = momentOf(this.#client.clock)): void {
    if (this.#isOver) return;
    const { lease } = this.#hold;
    if (lease.remainingMs(now) <= 0) this.giveUp(this.#localReason);
    else if (this.#leftMs(now) <= 0) this.giveUp("expired");
    else {
      if (lease.elapsedMs(now) >= lease.ms / 3) this.#renewOrProbe();
      this.#arm(now);
    }
  }

  /** Asks the service whether the lock is still held. @internal */
  verify(): void {
    if (!this.#isOver && !this.#hold.isRenewing) void this.#renew();
  }

  /** Another client wants it: an idle lock is released at once, any other after its callback. @internal */
  want(): void {
    this.isWanted = true;
    if (this.#options.isIdle) void this.release();
  }

  /** Ends this `Lock`, but not its grant, which another `Lock` takes over. @internal */
  handOver(): Hold {
    this.#end(false);
    return this.#hold;
  }

  /** The lock is lost. The first reason counts. @internal */
  lose(reason: LossReason): void {
    if (this.#isOver) return;
    this.#end();
    this.#loss = new LockLostError(this.key, reason);
    this.#resolveLost(this.#loss);
    this.#lossController?.abort(this.#loss);
  }

  /** Why the lock is lost, as far as the client knows without the service. */
  get #localReason(): LossReason {
    return this.#client.isReady ? "expired" : "disconnected";
  }

  /** What is left of `maxHold`. */
  #leftMs(now?: Moment): number {
    const { maxHold = FOREVER_MS } = this.#options;
    return maxHold - elapsedMs(this.#client.clock, this.#heldSince, now);
  }

  #renewOrProbe(): void {
    const { isRenewing, lease } = this.#hold;
    if (!isRenewing) {
      if (this.#client.isReady) void this.#renew();
    } else if (lease.elapsedMs() >= (lease.ms * 2) / 3) this.#client.suspect();
  }

  async #renew(): Promise<void> {
    const [client, hold] = [this.#client, this.#hold];
    // Another `Lock` may have taken the grant over since.
    const now = () => hold.lock as Lock;
    hold.isRenewing = true;
    try {
      const request = { command: "n", ...hold.place, arg: `${hold.token} ${hold.lease.ms / 1000}` } as const;
      let answer = await client.ask(request);
      // `error` also stands for a failure of the service, so ask twice.
      hold.isRefused = answer.status === "error";
      if (hold.isRefused && !now().#isOver) answer = await client.ask(request);
      if (now().#isOver) return;
      hold.isRefused = answer.status === "error";
      if (answer.status === "ok") hold.lease = leaseOf(client.clock, answer.rest, answer.sentAt);
      else if (hold.isRefused) now().giveUp("expired");
      if (hold.lease.isWanted) now().want();
    } catch {
      // The session is gone, or the token was refused. Both are reported elsewhere, and the lease ends anyway.
    } finally {
      hold.isRenewing = false;
      if (!now().#isOver) now().#arm();
    }
  }

  /** The lock is lost by the client's clock: the service may not know yet. @internal */
  giveUp(reason: LossReason): void {
    this.lose(reason);
    void releaseToken(this.#client, this.#hold.place, this.token);
  }

  async #releaseToken(): Promise<boolean> {
    if (!this.#isOver) this.#end();
    const given = releaseToken(this.#client, this.#hold.place, this.token);
    const answer = await within(this.#client.clock, RELEASED_WITHIN_MS, given).catch(() => undefined);
    const isGiven = answer?.status === "ok" || answer?.isRepeated === true;
    this.#hold.isRefused = answer?.status === "error" && !isGiven;
    return isGiven;
  }

  #end(isDone = true): void {
    this.#isOver = true;
    if (isDone) this.#hold.stop?.();
    this.#client.drop(this);
    this.#options.ended?.();
  }

  /** Sets the timer for the next third of the lease, its end, or the end of `maxHold`. */
  #arm(now = momentOf(this.#client.clock)): void {
    const hold = this.#hold;
    const { lease, stop } = hold;
    const thirdMs = lease.ms / 3;
    const leftMs = this.#leftMs(now);
    // The timer that is set fires before the next third is over. Setting it again would dominate the cost of a short sticky lock.
    if (stop && leftMs > thirdMs) return;
    stop?.();
    const nextThirdMs = thirdMs - (lease.elapsedMs(now) % thirdMs);
    const sleepMs = Math.max(1, Math.ceil(Math.min(nextThirdMs, lease.remainingMs(now), leftMs)));
    hold.stop = this.#client.clock.after(sleepMs, () => {
      hold.stop = undefined;
      hold.lock?.check();
    });
  }
}

/**
 * Runs the callback, then releases what is held, unless it is kept. Settles as the callback does; if the callback succeeds
 * but a lock was lost, rejects with the `LockLostError`.
 */
export async function whileHeld<Result, Held extends { release(): Promise<unknown> } & Pick<Lock, "finish">>(
  lock: Held,
  run: (lock: Held) => Result | Promise<Result>,
  keeps?: () => boolean,
): Promise<Result> {
  let result: Result;
  try {
    result = await run(lock);
  } catch (error) {
    if (!keeps?.()) await lock.release();
    throw error;
  }
  const loss = keeps?.() ? undefined : await lock.finish();
  if (loss) throw loss;
  return result;
}
