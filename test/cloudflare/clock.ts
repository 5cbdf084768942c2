import { vi } from "vitest";

/**
 * From here on `Date` moves only with `pass`. Timers and alarms still follow the machine's clock. Call this before the
 * first event whose age matters: on a slow machine that event would otherwise be older than the test assumes.
 */
export function stopClock(): void {
  vi.useFakeTimers({ toFake: ["Date"] });
}

/** Moves the stopped clock; a negative time sets it back. */
export function pass(ms: number): void {
  vi.setSystemTime(Date.now() + ms);
}
