import type { PlaygroundEvent } from "./event.ts";

export interface LogLine {
  /** Increases by one with every line. */
  readonly number: number;
  /** Milliseconds of the wall clock. */
  readonly at: number;
  readonly event: PlaygroundEvent;
}

const MAX_LINES = 100;

/** Adds a line, newest first, and drops the oldest. */
export function logged(lines: readonly LogLine[], event: PlaygroundEvent, at: number): readonly LogLine[] {
  const number = (lines[0]?.number ?? 0) + 1;
  return [{ number, at, event }, ...lines].slice(0, MAX_LINES);
}
