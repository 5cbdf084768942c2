import { type LockOptions, patienceOf, soon, take, type WaitOptions } from "./acquire.ts";
import { AcquireTimeoutError, CapacityError, ConnectionError, errorOf, LockLostError } from "./errors.ts";
import { giveBack, type Host, type Place } from "./host.ts";
import type { Lock } from "./lock.ts";
import { checkHold, checkKey, leaseArg, limitArg, waitArg } from "./wire.ts";

/** Takes the last place in the queue of a key. */
export async function enqueue(
  host: Host,
  key: string,
  { limit = 1, lease, signal }: LockOptions & Pick<WaitOptions, "signal">,
): Promise<Ticket> {
  checkKey(key);
  const arg = `${limitArg(limit)}${leaseArg(lease)}`.trim();
  const request = { command: "e", key, limit, arg, isClaim: true } as const;
  const { status } = await host.ask(request, { signal, ...soon(host) });
  if (status !== "acquired" && status !== "queued") throw errorOf(status, key);
  return new Ticket(host, { key, limit });
}

/**
 * A place in the queue of a key. It moves up whether somebody waits for it or not; once it has come up, it must be
 * waited for within its lease. A client has at most one place on a key.
 */
export class Ticket implements AsyncDisposable {
  readonly key: string;
  readonly #host: Host;
  readonly #place: Place;
  readonly #sessionNumber: number;
  #leaving: AbortController | undefined;
  #isOver = false;

  /** @internal */
  constructor(host: Host, place: Place) {
    this.key = place.key;
    this.#host = host;
    this.#place = place;
    this.#sessionNumber = host.sessionNumber;
  }

  /** Resolves once the lock is held. A wait that ends without it gives up the place. */
  async wait(options: WaitOptions = {}): Promise<Lock> {
    const { timeout = Number.POSITIVE_INFINITY, signal, maxHold } = options;
    const arg = waitArg(timeout);
    checkHold(maxHold);
    signal?.throwIfAborted();
    if (this.#isOver) throw errorOf("error_not_enqueued", this.key);
    if (this.#sessionNumber !== this.#host.sessionNumber)
      throw new ConnectionError("the session is gone", this.#host.problem);
    this.#isOver = true;
    const leaving = new AbortController();
    this.#leaving = leaving;
    const abort = () => leaving.abort(signal?.reason);
    signal?.addEventListener("abort", abort);
    try {
      const patience = patienceOf(this.#host, this.key, { timeout, signal: leaving.signal });
      // It must arrive also if nobody waits any more: to be taken back there, and the place with it.
      const request = { command: "w", ...this.#place, arg, isClaim: true, mustArrive: true } as const;
      const answer = await this.#host.ask(request, patience);
      if (answer.isRepeated && answer.status === "error_not_enqueued") throw endedUnheard(this.key, timeout);
      return await take(this.#host, this.#place, answer, { ...options, signal: leaving.signal });
    } catch (error) {
      if (error instanceof CapacityError) void leavePlace(this.#host, this.#place);
      throw error;
    } finally {
      signal?.removeEventListener("abort", abort);
      this.#leaving = undefined;
    }
  }

  /**
   * Gives up the place, and ends a wait for it. Does nothing once the wait is over: the lock has an end of its own. Never rejects.
   */
  async leave(): Promise<void> {
    this.#leaving?.abort(new DOMException("the place was given up", "AbortError"));
    if (this.#isOver || this.#sessionNumber !== this.#host.sessionNumber) return;
    this.#isOver = true;
    await leavePlace(this.#host, this.#place);
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.leave();
  }
}

/** The wait is over, and how was said on a connection that was lost. */
function endedUnheard(key: string, timeout: number): Error {
  return timeout === Number.POSITIVE_INFINITY ? new LockLostError(key, "expired") : new AcquireTimeoutError(key);
}

/** Waiting for no time gives up a place; what it turns out to hold is given back. */
export async function leavePlace(host: Host, place: Place): Promise<void> {
  const request = { command: "w", ...place, arg: "0", mustArrive: true } as const;
  const answer = await host.ask(request, soon(host)).catch(() => undefined);
  if (answer?.status !== "ok") return;
  const [token = ""] = answer.rest.split(" ");
  await giveBack(host, place, token);
}
