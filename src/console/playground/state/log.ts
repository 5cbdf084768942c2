import type { Happening } from "./happening.ts";

export interface LogLine {
  /** Rises by one with every line. */
  readonly number: number;
  /** Milliseconds of the wall clock. */
  readonly at: number;
  readonly happening: Happening;
}

const MAX_LINES = 100;

/** The log with one more line, newest first. The oldest make room. */
export function logged(lines: readonly LogLine[], happening: Happening, at: number): readonly LogLine[] {
  const number = (lines[0]?.number ?? 0) + 1;
  return [{ number, at, happening }, ...lines].slice(0, MAX_LINES);
}
