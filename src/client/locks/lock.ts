import { elapsedMs, type Moment, momentOf, within } from "../clock.ts";
import { LockLostError, type LossReason } from "../errors.ts";
import { giveBack, type Host, type Place } from "./host.ts";
import { Lease } from "./lease.ts";

const RELEASED_WITHIN_MS = 5_000;

export interface Grant extends Place {
  readonly token: string;
  readonly lease: Lease;
  /** Milliseconds after which the lock is lost even to a holder that is alive. */
  readonly maxHold: number | undefined;
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
  readonly #host: Host;
  readonly #token: string;
  readonly #place: Place;
  readonly #heldSince: Moment;
  readonly #maxHold: number;
  readonly #losing = new AbortController();
  #tellLost: (error: LockLostError) => void = () => {};
  #lease: Lease;
  #isOver = false;
  #isRenewing = false;
  /** The service has refused a renewal or a release, and is asked once more. */
  #isRefused = false;
  #released: Promise<boolean> | undefined;
  #cancelTimer: () => void = () => {};

  /** @internal */
  constructor(host: Host, { key, limit, token, lease, maxHold }: Grant) {
    this.#host = host;
    this.key = key;
    this.#token = token;
    this.#place = { key, limit };
    this.#lease = lease;
    this.#heldSince = momentOf(host.clock);
    this.#maxHold = maxHold ?? Number.POSITIVE_INFINITY;
    this.lost = new Promise((resolve) => {
      this.#tellLost = resolve;
    });
    host.hold(this);
    this.#arm();
  }

  /** What proves the hold to the service: whoever knows it may release it. Not shown when the lock is logged. */
  get token(): string {
    return this.#token;
  }

  /** Aborts when the lock is lost, with a `LockLostError`; not when it is released. */
  get signal(): AbortSignal {
    return this.#losing.signal;
  }

  /** 16 hex digits, higher as text with every grant of the key: let what the lock protects refuse lower ones. */
  get fence(): string {
    return this.token.slice(0, 16);
  }

  /** For how long the service keeps the lock without being asked again, in milliseconds. */
  get lease(): number {
    return this.#lease.ms;
  }

  /**
   * Until when the lock is held unless it is renewed, in milliseconds of `Date.now()`. Every renewal moves it, but not past the end
   * of `maxHold`. Counted as `isHeld` counts: the service keeps the lock a little longer. It may be lost before: see `isHeld`.
   */
  get expiresAt(): number {
    const { clock } = this.#host;
    const leftMs = Math.min(this.#lease.remainingMs, this.#maxHold - elapsedMs(clock, this.#heldSince));
    return Math.floor(clock.wall() + leftMs);
  }

  /** False as soon as the lock may be somebody else's, by the clock, even if nobody has been told yet. */
  get isHeld(): boolean {
    return !this.#isOver && !this.#isRefused && !this.#lease.isOver && !this.#host.isLapsed;
  }

  /**
   * Gives the lock back. Resolves with true once the service has it, and with false if the lock was lost before, or if
   * the service does not answer within five seconds: it then ends with its lease at the latest. Never rejects; calling it again
   * changes nothing.
   */
  release(): Promise<boolean> {
    this.#released ??= this.#release();
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
    if ((await this.release()) || wasOver) return this.signal.reason;
    // A loss may still be on its way. But the word for a refusal is also that for a failure: one alone is not believed.
    if (this.#isRefused && (await this.#giveBack())) return undefined;
    if (wasHeld && !this.#isRefused) return undefined;
    return new LockLostError(this.key, this.#host.losses.get(this.token) ?? this.#ownReason);
  }

  /** Judges by the clocks what is due, however late it is called. @internal */
  check(): void {
    if (this.#isOver) return;
    if (this.#lease.isOver) this.giveUp(this.#ownReason);
    else if (elapsedMs(this.#host.clock, this.#heldSince) >= this.#maxHold) this.giveUp("expired");
    else {
      if (this.#lease.isDue) this.#renewOrProbe();
      this.#arm();
    }
  }

  /** Asks the service whether the lock is still held. @internal */
  verify(): void {
    if (!this.#isOver && !this.#isRenewing) void this.#renew();
  }

  /** The lock is lost. Whoever says so first is believed. @internal */
  lose(reason: LossReason): void {
    if (this.#isOver) return;
    this.#end();
    const error = new LockLostError(this.key, reason);
    this.#tellLost(error);
    this.#losing.abort(error);
  }

  /** Why the lock is lost, as far as the client alone can tell. */
  get #ownReason(): LossReason {
    return this.#host.isConnected ? "expired" : "disconnected";
  }

  #renewOrProbe(): void {
    if (!this.#isRenewing) {
      if (this.#host.isConnected) void this.#renew();
    } else if (this.#lease.elapsedMs >= (this.#lease.ms * 2) / 3) this.#host.suspect();
  }

  async #renew(): Promise<void> {
    this.#isRenewing = true;
    try {
      const request = { command: "n", ...this.#place, arg: `${this.token} ${this.#lease.seconds}` } as const;
      let answer = await this.#host.ask(request);
      // The same word says that the service had a failure: one alone is not believed.
      this.#isRefused = answer.status === "error";
      if (this.#isRefused && !this.#isOver) answer = await this.#host.ask(request);
      if (this.#isOver) return;
      this.#isRefused = answer.status === "error";
      if (answer.status === "ok") this.#lease = new Lease(this.#host.clock, Number(answer.rest), answer.sentAt);
      else if (this.#isRefused) this.giveUp("expired");
    } catch {
      // The session is gone, or this token was refused: whoever found out tells, and at last the lease does.
    } finally {
      this.#isRenewing = false;
      if (!this.#isOver) this.#arm();
    }
  }

  /** Lost by our own judgement: the service may not know yet. @internal */
  giveUp(reason: LossReason): void {
    this.lose(reason);
    void giveBack(this.#host, this.#place, this.token);
  }

  async #release(): Promise<boolean> {
    if (this.#isOver) return false;
    this.#end();
    return this.#giveBack();
  }

  async #giveBack(): Promise<boolean> {
    const given = giveBack(this.#host, this.#place, this.token);
    const answer = await within(this.#host.clock, RELEASED_WITHIN_MS, given).catch(() => undefined);
    const isGiven = answer?.status === "ok" || answer?.isRepeated === true;
    this.#isRefused = answer?.status === "error" && !isGiven;
    return isGiven;
  }

  #end(): void {
    this.#isOver = true;
    this.#cancelTimer();
    this.#host.drop(this);
  }

  /** Sleeps until the next third of the lease, its end, or the end of the longest hold. */
  #arm(): void {
    const { elapsedMs: passedMs, ms, remainingMs } = this.#lease;
    const thirdMs = ms / 3;
    const nextThirdMs = (Math.floor(passedMs / thirdMs) + 1) * thirdMs - passedMs;
    const heldMs = elapsedMs(this.#host.clock, this.#heldSince);
    this.#cancelTimer();
    const sleepMs = Math.max(1, Math.ceil(Math.min(nextThirdMs, remainingMs, this.#maxHold - heldMs)));
    this.#cancelTimer = this.#host.clock.after(sleepMs, () => this.check());
  }
}

/**
 * Runs the work, then gives the lock back. Settles as the work does; if that succeeds though the lock was lost meanwhile,
 * rejects with the `LockLostError`.
 */
export async function whileHeld<Result>(lock: Lock, run: () => Result | Promise<Result>): Promise<Result> {
  let result: Result;
  try {
    result = await run();
  } catch (error) {
    await lock.release();
    throw error;
  }
  const loss = await lock.conclude();
  if (loss) throw loss;
  return result;
}
