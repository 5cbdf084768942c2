const FIRST_PAUSE_MS = 100;
const MAX_PAUSE_MS = 5_000;

/**
 * Pause before the next attempt: exponential, with jitter, at most `longestMs`.
 */
export function pauseMs(attempts: number, longestMs = MAX_PAUSE_MS): number {
  return Math.min(FIRST_PAUSE_MS * 2 ** attempts, longestMs, MAX_PAUSE_MS) * (0.5 + Math.random() / 2);
}
