/** The client's constants, in one file, so that a bundler turns them into literals. */

/** Time to read what has arrived: after a suspension, timers fire before the input that came meanwhile is read. */
export const LATE_READ_MS = 50;
/** After a suspension the client checks soon whether its session still exists. */
export const PROBE_AFTER_FREEZE_MS = 500;
/**
 * From opening a socket to the first reply on it. After a restart all clients reconnect at once, and a busy server refuses
 * a connection after ten seconds: a client that gives up earlier starts again at the end of the queue.
 */
export const READY_WITHIN_MS = 11_000;
/** Time for the `token` function. */
export const TOKEN_WITHIN_MS = 5_000;
export const BEAT_MS = 5_000;
/** Heartbeats within the grace period of a session. */
export const BEATS_IN_GRACE = 4;
/** Attempts to reconnect within the grace period, at least. */
export const ATTEMPTS_IN_GRACE = 10;
/** A connection that lasted this long resets the backoff. */
export const STABLE_MS = 5_000;
export const PROBE_MS = 2_000;
export const SUSPECT_PROBE_MS = 500;
export const CLOSED_WITHIN_MS = 5_000;
/** A token younger than this is not refused because it has expired. */
export const FRESH_MS = 5_000;
/** The service's clock may run a little faster than ours. */
export const SAFE_PART = 0.99;
export const FREEZE_CHECK_MS = 250;
export const FROZEN_AFTER_MS = 1_000;
/** Replies within this time after a thaw prove nothing: the browser closes the socket a little later. */
export const THAW_MS = 500;
export const RELEASED_WITHIN_MS = 5_000;
export const MAX_IDLE_MS = 10_000;
/** How long callbacks may follow one another without a pause. */
export const MAX_BUSY_MS = 10;
export const ASKED_AT_ONCE = 64;
/** The key for an empty name: keys are not empty. */
export const EMPTY = "%";
export const MAX_SHOWN = 64;
/** Keys of one request: each costs a round trip while those before it are held. */
export const MAX_KEYS = 16;
export const MAX_LOSSES = 64;
/** More than it takes until a grant that was read is a `Lock`. */
export const GRANT_MICROTASKS = 16;
/** The longest lease that the service accepts. */
export const MAX_LEASE_MS = 9_223_372_036_000;
