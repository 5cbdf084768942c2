import { elapsedMs, type Moment } from "../clock.ts";
import type { Answer, WaitLimits } from "../connection/calls.ts";
import {
  AcquireTimeoutError,
  ConnectionError,
  errorOf,
  LimitMismatchError,
  type LockError,
  LockLostError,
} from "../errors.ts";
import type { KeyReport } from "../report.ts";
import { leaseArg, limitArg, WANTED, waitArg } from "../wire.ts";
import { ANSWERED_WITHIN_MS, type ClientContext, type LockTarget, releaseToken } from "./client-context.ts";
import { leaseOf } from "./lease.ts";
import { Lock } from "./lock.ts";
import { read } from "./read.ts";

/** What to acquire. Times are milliseconds. */
export interface LockOptions {
  /** How many may hold the key at a time. Default: 1, a lock. */
  readonly limit?: number | undefined;
  /** How long the service keeps the lock without a renewal, rounded up to whole seconds. Default: the service's. */
  readonly lease?: number | undefined;
}

/** How to wait. Times are milliseconds. */
export interface WaitOptions {
  /** Ends the wait and leaves the queue; a lock that was granted at that moment is released. */
  readonly signal?: AbortSignal | undefined;
  /** How long to wait; 0 does not wait. Default: no limit. */
  readonly timeout?: number | undefined;
  /** The lock is lost after this time, even if its holder is alive. */
  readonly maxHold?: number | undefined;
}

/** What to acquire, and how to wait for it. */
export interface AcquireOptions extends LockOptions, WaitOptions {
  /** Takes the key from all its holders, ahead of all waiters. Needs the administrator's token. */
  readonly steal?: boolean | undefined;
}

/** How to acquire and keep the lock of a callback. Times are milliseconds. */
export interface RequestOptions extends AcquireOptions {
  /**
   * Keeps the lock after the callback, until another client wants it, `maxIdle` is over or the page is hidden. Requests
   * for it in the meantime do not ask the service, and their callbacks share a fence. Default: that of `connect`.
   */
  readonly sticky?: boolean | undefined;
  /** How long a sticky lock is kept without a callback. Default: ten seconds. */
  readonly maxIdle?: number | undefined;
}

/**
 * Resolves once the lock is held. Rejects with the signal's reason if it aborts, and with an `AcquireTimeoutError` after
 * the timeout. `ended` makes it a sticky lock, and is called when it is released or lost.
 */
export async function acquire(
  client: ClientContext,
  key: string,
  options: AcquireOptions,
  ended?: () => unknown,
): Promise<Lock> {
  const { limit = 1, lease, timeout, steal } = options;
  const place = { key, limit };
  const more = ended ? WANTED : "";
  const arg = `${steal ? limit : waitArg(timeout) + limitArg(limit)}${leaseArg(lease)}${more}`;
  // Release our own sticky hold first.
  if (!ended) client.kept.release(place);
  const request = { command: steal ? "steal" : "l", ...place, arg, isClaim: true } as const;
  const answer = await client.ask(request, waitLimitsOf(client, key, { ...options, timeout: steal ? 0 : timeout }));
  return take(client, place, answer, options, ended);
}

/** How long to wait for the answer to a request that may wait for a lock. */
export function waitLimitsOf(
  client: ClientContext,
  key: string,
  { signal, timeout }: Pick<WaitLimits, "signal"> & { readonly timeout?: number | undefined },
): WaitLimits {
  if (timeout === 0) return { signal, ...answerLimits(client) };
  return {
    signal,
    withinMs: timeout,
    tooLate: () => new AcquireTimeoutError(key, client.isReady ? undefined : client.problem, timeout),
  };
}

/** What is left of a timeout; at least 1 ms, because 0 would mean not to wait. */
export function leftMs(client: ClientContext, timeout: number | undefined, since: Moment): number | undefined {
  return timeout && Math.max(1, timeout - elapsedMs(client.clock, since));
}

/** For requests that the service answers at once. */
export function answerLimits(client: ClientContext): WaitLimits {
  const tooLate = () => new ConnectionError(`no answer within ${ANSWERED_WITHIN_MS} ms`, client.problem);
  return { withinMs: ANSWERED_WITHIN_MS, tooLate };
}

/** The error for a request that was refused. Asks for the limit of a key that has another one. */
export async function refusalOf(
  client: ClientContext,
  word: string,
  place: LockTarget,
  options?: AcquireOptions,
): Promise<LockError> {
  const error = errorOf(word, place, options);
  if (error.code !== "limit_mismatch") return error;
  const report = await read<KeyReport | null>(client, { command: "query", key: place.key }).catch(() => null);
  return new LimitMismatchError(place.key, place.limit, report?.limit);
}

/**
 * Turns a grant into a lock. If the request was sent long ago, or the grant was read after a sleep, the service is asked
 * whether the lock is still held before the caller is told.
 */
export async function take(
  client: ClientContext,
  place: LockTarget,
  { status, rest, sentAt }: Answer,
  options: AcquireOptions,
  ended?: () => unknown,
): Promise<Lock> {
  const { signal, maxHold, timeout } = options;
  if (status !== "ok") throw await refusalOf(client, status, place, options);
  const [token = ""] = rest.split(" ");
  let lease = leaseOf(client.clock, rest.slice(token.length), sentAt);
  try {
    signal?.throwIfAborted();
    if (lease.elapsedMs() >= lease.ms / 3 || client.isLapsed) {
      const renewal = { command: "n", ...place, arg: `${token} ${lease.ms / 1000}` } as const;
      const limits = waitLimitsOf(client, place.key, { signal, timeout: leftMs(client, timeout, sentAt) });
      const confirmed = await client.ask(renewal, limits);
      if (confirmed.status !== "ok") throw new LockLostError(place.key, "expired");
      lease = leaseOf(client.clock, confirmed.rest, confirmed.sentAt);
    }
  } catch (error) {
    void releaseToken(client, place, token);
    throw error;
  }
  return new Lock(client, { place, token, lease }, { maxHold, ended });
}
