import { elapsedMs, type Moment, momentOf } from "../clock.ts";
import type { Answer } from "../connection/calls.ts";
import { CapacityError, errorOf } from "../errors.ts";
import { checkCall, checkOptions } from "../options.ts";
import type { Holder, KeyReport, Waiter } from "../report.ts";
import { FOREVER_MS, leaseArg, limitArg, waitArg } from "../wire.ts";
import { answerLimits, type LockOptions, leftMs, refusalOf, take, type WaitOptions, waitLimitsOf } from "./acquire.ts";
import { type ClientContext, type LockTarget, releaseToken, type SessionState } from "./client-context.ts";
import type { Lock } from "./lock.ts";
import { read } from "./read.ts";

/** Takes the last place in the queue of a key. */
export async function enqueue(
  client: ClientContext,
  key: string,
  options: LockOptions & Pick<WaitOptions, "signal">,
): Promise<Ticket> {
  checkCall("enqueue", key, options);
  const { limit = 1, lease, signal } = options;
  const place = { key, limit };
  const askedAt = momentOf(client.clock);
  const arg = `${limitArg(limit)}${leaseArg(lease)}`.trim();
  const request = { command: "e", ...place, arg, isClaim: true } as const;
  const { status } = await client.ask(request, { signal, ...answerLimits(client) });
  if (status !== "acquired" && status !== "queued") throw await refusalOf(client, status, place);
  return new Ticket(client, place, askedAt);
}

/**
 * A place in the queue of a key. It moves up whether it is waited for or not; once it is granted, it must be waited for
 * within its lease. A client has at most one place per key.
 */
export class Ticket implements AsyncDisposable {
  /** The key whose queue it is in. */
  readonly key: string;
  readonly #client: ClientContext;
  readonly #place: LockTarget;
  readonly #session: SessionState;
  readonly #askedAt: Moment;
  #leaving: AbortController | undefined;
  #isOver = false;

  /** @internal */
  constructor(client: ClientContext, place: LockTarget, askedAt: Moment) {
    this.key = place.key;
    this.#client = client;
    this.#place = place;
    this.#session = client.session;
    this.#askedAt = askedAt;
  }

  /**
   * Resolves with the position in the queue: 1 is next, 0 is granted; null if the service does not show it, because it is
   * not among the first hundred or `RESUME_GRACE_S` is 0. Rejects with a `ProtocolError` (`not_enqueued`) if the place is
   * gone; with a `ConnectionError` if its session has ended or there is no answer within ten seconds; with an `AuthError`
   * if the client's own ticket does not allow `stats`.
   */
  async position(): Promise<number | null> {
    const { end } = this.#session;
    if (end) throw end;
    const report =
      this.#isOver && !this.#leaving
        ? null
        : await read<KeyReport | null>(this.#client, { command: "query", key: this.key });
    const position = positionIn(report, this.#client.owner, elapsedMs(this.#client.clock, this.#askedAt));
    if (position === undefined) throw errorOf("error_not_enqueued", this.#place);
    return position;
  }

  /**
   * Resolves once the lock is held. Rejects with an `AcquireTimeoutError` after the timeout; with the signal's reason if it
   * aborts; with a `LockLostError` if the lease ended before the grant arrived; with a `ProtocolError` (`not_enqueued`) if
   * the place was waited for or left before; with a `ConnectionError` if its session has ended. A wait that ends without
   * the lock leaves the queue.
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
    const ending = signal ? AbortSignal.any([signal, leaving.signal]) : leaving.signal;
    try {
      const answer = await this.#ask(timeout, ending);
      return await take(this.#client, this.#place, answer, { ...options, signal: ending });
    } catch (error) {
      if (error instanceof CapacityError) void leaveQueue(this.#client, this.#place);
      throw error;
    } finally {
      this.#leaving = undefined;
    }
  }

  /**
   * Leaves the queue, and ends a wait with an `AbortError`. Does nothing once the lock is held: release the lock instead.
   * Never rejects.
   */
  async leave(): Promise<void> {
    this.#leaving?.abort(new DOMException("given up", "AbortError"));
    if (this.#isOver || this.#session.end) return;
    this.#isOver = true;
    await leaveQueue(this.#client, this.#place);
  }

  /** As `leave`, at the end of an `await using` block. */
  [Symbol.asyncDispose](): Promise<void> {
    return this.leave();
  }

  /** Waits. Resolves with the answer. */
  async #ask(timeout: number | undefined, signal: AbortSignal): Promise<Answer> {
    const [client, place] = [this.#client, this.#place];
    const since = momentOf(client.clock);
    const ask = (ms: number | undefined) => {
      // Must arrive even if the caller has given up, so that the service cancels it and removes the place.
      const request = { command: "w", ...place, arg: waitArg(ms), isClaim: true, mustArrive: true } as const;
      return client.ask(request, waitLimitsOf(client, this.key, { timeout: ms, signal }));
    };
    let answer = await ask(timeout);
    if (answer.isRepeated && answer.status === "error_not_enqueued") {
      // The wait ended on a lost connection: by its timeout, or by a grant whose lease has ended since.
      const isLate = elapsedMs(client.clock, since) >= (timeout ?? FOREVER_MS);
      return { ...answer, status: isLate ? "timeout" : "error_lease_expired" };
    }
    if (answer.status === "error") {
      // The service failed; the place may still be there.
      const again = await ask(leftMs(client, timeout, since));
      if (again.status !== "error_not_enqueued") answer = again;
    }
    if (answer.status === "error" || answer.status === "error_auth") void leaveQueue(client, place);
    return answer;
  }
}

/** The position of the session's place of this age; null if the report does not show it, undefined if it is gone. */
function positionIn(report: KeyReport | null, owner: number | undefined, ageMs: number): number | null | undefined {
  if (!report) return undefined;
  const { held_by: holders, queue } = report;
  const isOwn = (member: Holder | Waiter) => member.owner_conn_id === owner;
  // Other requests of this client may wait for the key too: take the one whose age fits best. A younger one never does,
  // because the age is counted from before the place was asked for.
  const offMs = (waiter: Waiter) => Math.abs(waiter.waited_s * 1000 - ageMs);
  const [place] = queue.filter(isOwn).sort((a, b) => offMs(a) - offMs(b));
  if (place) return place.position;
  if (owner === undefined || report.waiters > queue.length) return null;
  return holders.some(isOwn) || report.holders > holders.length ? 0 : undefined;
}

/** Leaves the queue by a wait with timeout 0; if that is granted the lock, releases it. */
export async function leaveQueue(client: ClientContext, place: LockTarget): Promise<void> {
  const request = { command: "w", ...place, arg: "0", mustArrive: true } as const;
  const answer = await client.ask(request, answerLimits(client)).catch(() => undefined);
  if (answer?.status !== "ok") return;
  const [token = ""] = answer.rest.split(" ");
  await releaseToken(client, place, token);
}
