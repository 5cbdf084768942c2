import { elapsedMs, type Moment, momentOf } from "../clock.ts";
import type { Answer } from "../connection/calls.ts";
import { CapacityError, errorOf } from "../errors.ts";
import { checkCall, checkOptions } from "../options.ts";
import type { Holder, KeyReport, Waiter } from "../report.ts";
import { FOREVER_MS, leaseArg, limitArg, waitArg } from "../wire.ts";
import { type LockOptions, leftMs, patienceOf, soon, take, type WaitOptions } from "./acquire.ts";
import { giveBack, type Host, type LockTarget, type SessionFate } from "./host.ts";
import type { Lock } from "./lock.ts";
import { read } from "./read.ts";

/** Takes the last place in the queue of a key. */
export async function enqueue(
  host: Host,
  key: string,
  options: LockOptions & Pick<WaitOptions, "signal">,
): Promise<Ticket> {
  checkCall("enqueue", key, options);
  const { limit = 1, lease, signal } = options;
  const place = { key, limit };
  const arg = `${limitArg(limit)}${leaseArg(lease)}`.trim();
  const request = { command: "e", ...place, arg, isClaim: true } as const;
  const { status } = await host.ask(request, { signal, ...soon(host) });
  if (status !== "acquired" && status !== "queued") throw errorOf(status, place);
  return new Ticket(host, place);
}

/**
 * A place in the queue of a key. It moves up whether somebody waits for it or not; once it has come up, it must be
 * waited for within its lease. A client has at most one place on a key.
 */
export class Ticket implements AsyncDisposable {
  /** The key whose queue it is in. */
  readonly key: string;
  readonly #host: Host;
  readonly #place: LockTarget;
  readonly #session: SessionFate;
  readonly #since: Moment;
  #leaving: AbortController | undefined;
  #isOver = false;

  /** @internal */
  constructor(host: Host, place: LockTarget) {
    this.key = place.key;
    this.#host = host;
    this.#place = place;
    this.#session = host.session;
    this.#since = momentOf(host.clock);
  }

  /**
   * Resolves with the place in the queue: 1 is next, 0 has come up; null if the service does not show it, because it is not among the
   * first hundred or `RESUME_GRACE_S` is 0. Rejects with a `ProtocolError` (`not_enqueued`) if the place is gone; with a `ConnectionError` if its
   * session has ended or nobody answers within ten seconds; with an `AuthError` if the client's own ticket does not allow `stats`.
   */
  async position(): Promise<number | null> {
    const { end } = this.#session;
    if (end) throw end;
    const report =
      this.#isOver && !this.#leaving
        ? null
        : await read<KeyReport | null>(this.#host, { command: "query", key: this.key });
    const position = positionIn(report, this.#host.owner, elapsedMs(this.#host.clock, this.#since));
    if (position === undefined) throw errorOf("error_not_enqueued", this.#place);
    return position;
  }

  /**
   * Resolves once the lock is held. Rejects with an `AcquireTimeoutError` when the time is over; with the signal's reason when that aborts; with a
   * `LockLostError` if the lock was granted and its lease ended before it could be handed over; with a `ProtocolError` (`not_enqueued`) if the
   * place was waited for or left before; with a `ConnectionError` if its session has ended. A wait that ends without the lock gives up the place.
   */
  async wait(options: WaitOptions = {}): Promise<Lock> {
    checkOptions("wait", options, "maxHold signal timeout");
    const { timeout, signal } = options;
    signal?.throwIfAborted();
    if (this.#isOver) throw errorOf("error_not_enqueued", this.#place);
    if (this.#session.end) throw this.#session.end;
    this.#isOver = true;
    const leaving = new AbortController();
    this.#leaving = leaving;
    const abort = () => leaving.abort(signal?.reason);
    signal?.addEventListener("abort", abort);
    try {
      const answer = await this.#ask(timeout, leaving.signal);
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
   * Gives up the place, and ends a wait for it with an `AbortError`. Does nothing once the wait is over: the lock has an end of its own. Never rejects.
   */
  async leave(): Promise<void> {
    this.#leaving?.abort(new DOMException("given up", "AbortError"));
    if (this.#isOver || this.#session.end) return;
    this.#isOver = true;
    await leavePlace(this.#host, this.#place);
  }

  /** As `leave`, at the end of an `await using` block. */
  [Symbol.asyncDispose](): Promise<void> {
    return this.leave();
  }

  /** How the wait ends. */
  async #ask(timeout: number | undefined, signal: AbortSignal): Promise<Answer> {
    const [host, place] = [this.#host, this.#place];
    const since = momentOf(host.clock);
    const ask = (ms: number | undefined) => {
      // It must arrive even if the caller has given up: to be taken back there, and the place with it.
      const request = { command: "w", ...place, arg: waitArg(ms), isClaim: true, mustArrive: true } as const;
      return host.ask(request, patienceOf(host, this.key, { timeout: ms, signal }));
    };
    let answer = await ask(timeout);
    if (answer.isRepeated && answer.status === "error_not_enqueued") {
      // It ended on a connection that was lost. Before its time that was by a grant, which has lapsed since.
      const isLate = elapsedMs(host.clock, since) >= (timeout ?? FOREVER_MS);
      return { ...answer, status: isLate ? "timeout" : "error_lease_expired" };
    }
    if (answer.status === "error") {
      // The service had a failure, and the place may still be there.
      const again = await ask(leftMs(host, timeout, since));
      if (again.status !== "error_not_enqueued") answer = again;
    }
    if (answer.status === "error" || answer.status === "error_auth") void leavePlace(host, place);
    return answer;
  }
}

/** The position of a session's place of this age; null if the report does not reach that far, undefined if the place is gone. */
function positionIn(report: KeyReport | null, owner: number | undefined, ageMs: number): number | null | undefined {
  if (!report) return undefined;
  const { held_by: holders, queue } = report;
  const isOwn = (member: Holder | Waiter) => member.owner_conn_id === owner;
  // Other requests of this client may wait for the key too: the place is the one whose age fits.
  const offMs = (waiter: Waiter) => Math.abs(waiter.waited_s * 1000 - ageMs);
  const [place] = queue.filter(isOwn).sort((a, b) => offMs(a) - offMs(b));
  if (place) return place.position;
  if (owner === undefined || report.waiters > queue.length) return null;
  return holders.some(isOwn) || report.holders > holders.length ? 0 : undefined;
}

/** Waiting for no time gives up a place; what it turns out to hold is given back. */
export async function leavePlace(host: Host, place: LockTarget): Promise<void> {
  const request = { command: "w", ...place, arg: "0", mustArrive: true } as const;
  const answer = await host.ask(request, soon(host)).catch(() => undefined);
  if (answer?.status !== "ok") return;
  const [token = ""] = answer.rest.split(" ");
  await giveBack(host, place, token);
}
