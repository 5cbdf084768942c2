/** How long and how many: the numbers of the client, in one place, where a bundler turns them into literals. */
/** A program that was stopped for a while finds its timers due before it has read what came meanwhile. */
export const LAST_CHANCE_MS = 50;
/** Whoever stood still believes in things that may be over, and wants to know soon. */
export const SOON_MS = 500;
/**
 * From opening a socket to the first word of the service on it. After a restart everybody comes back, and a busy server refuses a
 * connection after ten seconds: a client that gives up before that starts again at the end of the queue.
 */
export const READY_WITHIN_MS = 11_000;
/** For a token that is asked for. */
export const TOKEN_WITHIN_MS = 5_000;
export const BEAT_MS = 5_000;
/** So many heartbeats fit into the time for which the service keeps a session without socket. */
export const BEATS_IN_GRACE = 4;
/** So many attempts, at least, are made while the session can still be saved. */
export const ATTEMPTS_IN_GRACE = 10;
/** A connection that lasted so long was a good one: the next attempt comes soon again. */
export const STABLE_MS = 5_000;
export const PROBE_MS = 2_000;
export const SUSPICION_MS = 500;
export const CLOSED_WITHIN_MS = 5_000;
/** A token this fresh is not the reason of a refusal. */
export const FRESH_MS = 5_000;
/** The service's clock may run a little faster than ours. */
export const SAFE_PART = 0.99;
export const LOOK_EVERY_MS = 250;
export const STOOD_STILL_MS = 1_000;
/** What is answered within this time of a thaw proves nothing: the socket is closed a little later. */
export const AFTERMATH_MS = 500;
export const RELEASED_WITHIN_MS = 5_000;
export const MAX_IDLE_MS = 10_000;
/** For so long callbacks may follow one another without a pause. */
export const MAX_BUSY_MS = 10;
export const ASKED_AT_ONCE = 64;
/** Stands for the name without text: the service has no such key. */
export const EMPTY = "%";
export const MAX_SHOWN = 64;
export const MAX_LOSSES = 64;
/** More than a grant takes to become a lock. */
export const MICROTASKS = 16;
/** As many seconds as the service takes. */
export const MAX_LEASE_MS = 9_223_372_036_000;
