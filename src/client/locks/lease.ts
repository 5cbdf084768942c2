import { type Clock, elapsedMs as elapsedSince, type Moment } from "../clock.ts";
import { SAFE_PART } from "../limits.ts";
import { WANTED } from "../wire.ts";

/**
 * For how long a lock is surely held. The service counts a lease from when it carried the request out, we count it from
 * when the request was sent: our end of it comes first.
 */
export interface Lease {
  readonly ms: number;
  /** The service has said so to a holder that asked. */
  readonly isWanted: boolean;
  elapsedMs(now?: Moment): number;
  /** Not positive: it may be somebody else's by now. */
  remainingMs(now?: Moment): number;
}

/** `text`: the seconds, and whether somebody else wants the key. */
export function leaseOf(clock: Clock, text: string, sentAt: Moment): Lease {
  const ms = Number.parseInt(text, 10) * 1000;
  const elapsedMs = (now?: Moment) => elapsedSince(clock, sentAt, now);
  return { ms, isWanted: text.endsWith(WANTED), elapsedMs, remainingMs: (now) => ms * SAFE_PART - elapsedMs(now) };
}
