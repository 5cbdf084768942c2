const FIRST_PAUSE_MS = 100;
const LONGEST_PAUSE_MS = 5_000;

/**
 * How long to wait before the next attempt: longer every time, and never as long as somebody else. Never longer than `longestMs`,
 * however many attempts there were.
 */
export function pauseMs(attempts: number, longestMs = LONGEST_PAUSE_MS): number {
  return Math.min(FIRST_PAUSE_MS * 2 ** attempts, longestMs, LONGEST_PAUSE_MS) * (0.5 + Math.random() / 2);
}
