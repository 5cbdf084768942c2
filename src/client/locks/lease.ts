import { type Clock, elapsedMs as elapsedSince, type Moment } from "../clock.ts";
import { SAFE_PART } from "../limits.ts";
import { WANTED } from "../wire.ts";

/**
 * How long a lock is certainly held. The service counts a lease from when it carried out the request, the client from when
 * it sent the request: so the lease ends earlier here.
 */
export interface Lease {
  readonly ms: number;
  /** Another client wants the key. */
  readonly isWanted: boolean;
  elapsedMs(now?: Moment): number;
  /** If not positive, another client may hold the lock. */
  remainingMs(now?: Moment): number;
}

/** `text`: the seconds, and whether another client wants the key. */
export function leaseOf(clock: Clock, text: string, sentAt: Moment): Lease {
  const ms = Number.parseInt(text, 10) * 1000;
  const elapsedMs = (now?: Moment) => elapsedSince(clock, sentAt, now);
  return { ms, isWanted: text.endsWith(WANTED), elapsedMs, remainingMs: (now) => ms * SAFE_PART - elapsedMs(now) };
}
