import { elapsedMs, type Moment } from "../clock.ts";
import type { Answer, Patience } from "../connection/calls.ts";
import { AcquireTimeoutError, ConnectionError, errorOf, LockLostError } from "../errors.ts";
import { leaseArg, limitArg, WANTED, waitArg } from "../wire.ts";
import { ANSWERED_WITHIN_MS, giveBack, type Host, type LockTarget } from "./host.ts";
import { leaseOf } from "./lease.ts";
import { Lock } from "./lock.ts";

/** What is asked for. Times are milliseconds. */
export interface LockOptions {
  /** How many may hold the key at a time; 1, a lock, unless said otherwise. */
  readonly limit?: number | undefined;
  /** For how long the service keeps the lock without hearing of its holder; the service's default unless said otherwise. Whole seconds, rounded up. */
  readonly lease?: number | undefined;
}

/** How to wait. Times are milliseconds. */
export interface WaitOptions {
  /** Stops the wait; nothing is left in the queue, and what was granted at that moment is given back. */
  readonly signal?: AbortSignal | undefined;
  /** How long to wait; 0 does not wait at all, and nothing said waits for ever. */
  readonly timeout?: number | undefined;
  /** The lock is lost after this time, however alive its holder is. */
  readonly maxHold?: number | undefined;
}

/** What is asked for, and how to wait for it. */
export interface AcquireOptions extends LockOptions, WaitOptions {
  /** Takes the key from all who hold it, ahead of all who wait. Needs the administrator's token. */
  readonly steal?: boolean | undefined;
}

/** How a callback wants its lock. Times are milliseconds. */
export interface RequestOptions extends AcquireOptions {
  /**
   * Keeps the lock after the callback, until another client wants it, `maxIdle` is over or the page is hidden. Taking it again
   * meanwhile asks nobody. Callbacks that follow one another in this way share a fence. What `connect` was told unless said otherwise.
   */
  readonly sticky?: boolean | undefined;
  /** For how long a sticky lock is kept without a callback; ten seconds unless said otherwise. */
  readonly maxIdle?: number | undefined;
}

/**
 * Resolves once the lock is held. Rejects with the signal's reason at once when that aborts, and with an
 * `AcquireTimeoutError` when the time is over. `ended` is called when the lock is over, and makes it a sticky one.
 */
export async function acquire(host: Host, key: string, options: AcquireOptions, ended?: () => unknown): Promise<Lock> {
  const { limit = 1, lease, timeout, steal } = options;
  const place = { key, limit };
  const more = ended ? WANTED : "";
  const arg = `${steal ? limit : waitArg(timeout) + limitArg(limit)}${leaseArg(lease)}${more}`;
  // Its own client holds nothing against it.
  if (!ended) host.stays.giveUp(place);
  const request = { command: steal ? "steal" : "l", ...place, arg, isClaim: true } as const;
  const answer = await host.ask(request, patienceOf(host, key, { ...options, timeout: steal ? 0 : timeout }));
  return take(host, place, answer, options, ended);
}

/** How long to wait for the answer to a request that may wait for a lock. */
export function patienceOf(
  host: Host,
  key: string,
  { signal, timeout }: Pick<Patience, "signal"> & { readonly timeout?: number | undefined },
): Patience {
  if (timeout === 0) return { signal, ...soon(host) };
  return {
    signal,
    withinMs: timeout,
    tooLate: () => new AcquireTimeoutError(key, host.isReady ? undefined : host.problem, timeout),
  };
}

/** What is left of a time to wait. One that is not over leaves something. */
export function leftMs(host: Host, timeout: number | undefined, since: Moment): number | undefined {
  return timeout && Math.max(1, timeout - elapsedMs(host.clock, since));
}

/** For requests that the service answers without waiting for anything. */
export function soon(host: Host): Patience {
  const tooLate = () => new ConnectionError(`no answer within ${ANSWERED_WITHIN_MS} ms`, host.problem);
  return { withinMs: ANSWERED_WITHIN_MS, tooLate };
}

/**
 * Makes a lock of a grant. The grant of a request that was sent long ago, or was read after a sleep, may be old news: then the service is asked
 * whether it still stands before anybody is told that he holds it.
 */
export async function take(
  host: Host,
  place: LockTarget,
  { status, rest, sentAt }: Answer,
  { signal, maxHold, timeout }: WaitOptions,
  ended?: () => unknown,
): Promise<Lock> {
  if (status !== "ok") throw errorOf(status, place, timeout);
  const [token = ""] = rest.split(" ");
  let lease = leaseOf(host.clock, rest.slice(token.length), sentAt);
  try {
    signal?.throwIfAborted();
    if (lease.elapsedMs() >= lease.ms / 3 || host.isLapsed) {
      const renewal = { command: "n", ...place, arg: `${token} ${lease.ms / 1000}` } as const;
      const patience = patienceOf(host, place.key, { signal, timeout: leftMs(host, timeout, sentAt) });
      const confirmed = await host.ask(renewal, patience);
      if (confirmed.status !== "ok") throw new LockLostError(place.key, "expired");
      lease = leaseOf(host.clock, confirmed.rest, confirmed.sentAt);
    }
  } catch (error) {
    void giveBack(host, place, token);
    throw error;
  }
  return new Lock(host, { place, token, lease }, { maxHold, ended });
}
