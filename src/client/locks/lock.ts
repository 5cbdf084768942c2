import { elapsedMs, type Moment, momentOf, within } from "../clock.ts";
import { LockLostError, type LossReason } from "../errors.ts";
import { RELEASED_WITHIN_MS } from "../limits.ts";
import { FOREVER_MS } from "../wire.ts";
import { giveBack, type Host, type LockTarget } from "./host.ts";
import { type Lease, leaseOf } from "./lease.ts";

/** What the service knows of a lock. A sticky one is taken over by one `Lock` after the other. */
export interface Hold {
  readonly place: LockTarget;
  readonly token: string;
  lease: Lease;
  /** The `Lock` that has it now. */
  lock?: Lock;
  /** Stops the timer, which is for whoever has it when it fires. */
  stop?: (() => void) | undefined;
  isRenewing?: boolean;
  /** The service has refused a renewal or a release, and is asked once more. */
  isRefused?: boolean;
}

export interface HoldOptions {
  /** Milliseconds after which the lock is lost even to a holder that is alive. */
  readonly maxHold?: number | undefined;
  /** No callback runs: it is given back as soon as somebody wants it. */
  readonly isIdle?: boolean;
  /** This `Lock` is over, one way or the other. */
  readonly ended?: (() => unknown) | undefined;
}

/** The method by which Node, Deno and Bun print an object. */
const INSPECT = Symbol.for("nodejs.util.inspect.custom");

/**
 * A lock, or one slot of a semaphore, that is held. It is renewed until it is released or lost, and it is never called
 * held for longer than the service keeps it: without word from the service it counts as lost before its lease ends.
 */
export class Lock implements AsyncDisposable {
  /** The key that is held. */
  readonly key: string;
  /** Resolves with a `LockLostError` when the lock is lost. Never rejects; stays pending when the lock is released. */
  readonly lost: Promise<LockLostError>;
  /** Somebody else wants it. @internal */
  isWanted: boolean;
  readonly #host: Host;
  readonly #hold: Hold;
  readonly #options: HoldOptions;
  readonly #heldSince: Moment;
  #loss: LockLostError | undefined;
  #tellLost: (error: LockLostError) => void = () => {};
  /** Made when somebody asks for it: most locks last too short a time. */
  #losing: AbortController | undefined;
  #isOver = false;
  #released: Promise<boolean> | undefined;

  /** @internal */
  constructor(host: Host, hold: Hold, options: HoldOptions) {
    this.#host = host;
    this.#hold = hold;
    this.#options = options;
    hold.lock = this;
    this.isWanted = hold.lease.isWanted;
    this.key = hold.place.key;
    this.#heldSince = momentOf(host.clock);
    this.lost = new Promise((resolve) => {
      this.#tellLost = resolve;
    });
    host.hold(this);
    // One that lasts no longer than a short callback has no time for its timer: a renewal may be due.
    this.check(this.#heldSince);
  }

  /** What proves the hold to the service: whoever knows it may release it. Not shown when the lock is logged. */
  get token(): string {
    return this.#hold.token;
  }

  /** Aborts when the lock is lost, with a `LockLostError`; not when it is released. */
  get signal(): AbortSignal {
    this.#losing ??= new AbortController();
    if (this.#loss) this.#losing.abort(this.#loss);
    return this.#losing.signal;
  }

  /** 16 hex digits, higher as text with every grant of the key: let what the lock protects refuse lower ones. */
  get fence(): string {
    return this.token.slice(0, 16);
  }

  /** For how long the service keeps the lock without being asked again, in milliseconds. */
  get lease(): number {
    return this.#hold.lease.ms;
  }

  /**
   * Until when the lock is held unless it is renewed, in milliseconds of `Date.now()`. Every renewal moves it, but not past the end
   * of `maxHold`. Counted as `isHeld` counts: the service keeps the lock a little longer. It may be lost before: see `isHeld`.
   */
  get expiresAt(): number {
    return Math.floor(this.#host.clock.wall() + Math.min(this.#hold.lease.remainingMs(), this.#leftMs()));
  }

  /** False as soon as the lock may be somebody else's, by the clock, even if nobody has been told yet. */
  get isHeld(): boolean {
    const { isRefused, lease } = this.#hold;
    return !this.#isOver && !isRefused && lease.remainingMs() > 0 && !this.#host.isLapsed;
  }

  /**
   * Gives the lock back. Resolves with true once the service has it, and with false if the lock was lost before, or if
   * the service does not answer within five seconds: it then ends with its lease at the latest. Never rejects; calling it again
   * changes nothing.
   */
  release(): Promise<boolean> {
    this.#released ??= this.#isOver ? Promise.resolve(false) : this.#giveBack();
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

  /** Gives the lock back after its work. Resolves with the loss if the work may have gone on without the lock. @internal */
  async conclude(): Promise<LockLostError | undefined> {
    const wasOver = this.#isOver;
    const wasHeld = this.isHeld;
    if ((await this.release()) || wasOver) return this.#loss;
    // A loss may still be on its way. But the word for a refusal is also that for a failure: one alone is not believed.
    if (this.#hold.isRefused && (await this.#giveBack())) return undefined;
    if (wasHeld && !this.#hold.isRefused) return undefined;
    return new LockLostError(this.key, this.#host.losses.get(this.token) ?? this.#ownReason);
  }

  /** Judges by the clocks what is due, however late it is called. @internal */
  check(now = momentOf(this.#host.clock)): void {
    if (this.#isOver) return;
    const { lease } = this.#hold;
    if (lease.remainingMs(now) <= 0) this.giveUp(this.#ownReason);
    else if (this.#leftMs(now) <= 0) this.giveUp("expired");
    else {
      // A third of it is over.
      if (lease.elapsedMs(now) >= lease.ms / 3) this.#renewOrProbe();
      this.#arm(now);
    }
  }

  /** Asks the service whether the lock is still held. @internal */
  verify(): void {
    if (!this.#isOver && !this.#hold.isRenewing) void this.#renew();
  }

  /** Somebody else wants it: an idle one is given back at once, any other after its callback. @internal */
  want(): void {
    this.isWanted = true;
    if (this.#options.isIdle) void this.release();
  }

  /** This `Lock` is over, but not what it stood for: another takes it over. @internal */
  pass(): Hold {
    this.#end(false);
    return this.#hold;
  }

  /** The lock is lost. Whoever says so first is believed. @internal */
  lose(reason: LossReason): void {
    if (this.#isOver) return;
    this.#end();
    this.#loss = new LockLostError(this.key, reason);
    this.#tellLost(this.#loss);
    this.#losing?.abort(this.#loss);
  }

  /** Why the lock is lost, as far as the client alone can tell. */
  get #ownReason(): LossReason {
    return this.#host.isReady ? "expired" : "disconnected";
  }

  /** Of the longest hold. */
  #leftMs(now?: Moment): number {
    const { maxHold = FOREVER_MS } = this.#options;
    return maxHold - elapsedMs(this.#host.clock, this.#heldSince, now);
  }

  #renewOrProbe(): void {
    const { isRenewing, lease } = this.#hold;
    if (!isRenewing) {
      if (this.#host.isReady) void this.#renew();
    } else if (lease.elapsedMs() >= (lease.ms * 2) / 3) this.#host.suspect();
  }

  async #renew(): Promise<void> {
    const [host, hold] = [this.#host, this.#hold];
    // Meanwhile another `Lock` may have taken it over.
    const now = () => hold.lock as Lock;
    hold.isRenewing = true;
    try {
      const request = { command: "n", ...hold.place, arg: `${hold.token} ${hold.lease.ms / 1000}` } as const;
      let answer = await host.ask(request);
      // The same word says that the service had a failure: one alone is not believed.
      hold.isRefused = answer.status === "error";
      if (hold.isRefused && !now().#isOver) answer = await host.ask(request);
      if (now().#isOver) return;
      hold.isRefused = answer.status === "error";
      if (answer.status === "ok") hold.lease = leaseOf(host.clock, answer.rest, answer.sentAt);
      else if (hold.isRefused) now().giveUp("expired");
      if (hold.lease.isWanted) now().want();
    } catch {
      // The session is gone, or this token was refused: whoever found out tells, and at last the lease does.
    } finally {
      hold.isRenewing = false;
      if (!now().#isOver) now().#arm();
    }
  }

  /** Lost by our own judgement: the service may not know yet. @internal */
  giveUp(reason: LossReason): void {
    this.lose(reason);
    void giveBack(this.#host, this.#hold.place, this.token);
  }

  async #giveBack(): Promise<boolean> {
    if (!this.#isOver) this.#end();
    const given = giveBack(this.#host, this.#hold.place, this.token);
    const answer = await within(this.#host.clock, RELEASED_WITHIN_MS, given).catch(() => undefined);
    const isGiven = answer?.status === "ok" || answer?.isRepeated === true;
    this.#hold.isRefused = answer?.status === "error" && !isGiven;
    return isGiven;
  }

  #end(isDone = true): void {
    this.#isOver = true;
    if (isDone) this.#hold.stop?.();
    this.#host.drop(this);
    this.#options.ended?.();
  }

  /** Sleeps until the next third of the lease, its end, or the end of the longest hold. */
  #arm(now = momentOf(this.#host.clock)): void {
    const hold = this.#hold;
    const { lease, stop } = hold;
    const thirdMs = lease.ms / 3;
    const leftMs = this.#leftMs(now);
    // A timer that is set fires before the next third is over. Setting another would be most of a short sticky hold's cost.
    if (stop && leftMs > thirdMs) return;
    stop?.();
    const nextThirdMs = thirdMs - (lease.elapsedMs(now) % thirdMs);
    const sleepMs = Math.max(1, Math.ceil(Math.min(nextThirdMs, lease.remainingMs(now), leftMs)));
    hold.stop = this.#host.clock.after(sleepMs, () => {
      hold.stop = undefined;
      hold.lock?.check();
    });
  }
}

/**
 * Runs the work, then gives the lock back, unless it is kept. Settles as the work does; if that succeeds though the lock was
 * lost meanwhile, rejects with the `LockLostError`.
 */
export async function whileHeld<Result>(
  lock: Lock,
  run: (lock: Lock) => Result | Promise<Result>,
  keeps?: () => boolean,
): Promise<Result> {
  let result: Result;
  try {
    result = await run(lock);
  } catch (error) {
    if (!keeps?.()) await lock.release();
    throw error;
  }
  const loss = keeps?.() ? undefined : await lock.conclude();
  if (loss) throw loss;
  return result;
}
