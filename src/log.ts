type Level = "error" | "warn" | "debug";

/** In a flood of failures the first lines say it all: more than so many of one event in so long are only counted. */
const MOST_LINES = 10;
const PERIOD_MS = 10_000;

const counts = new Map<string, { since: number; lines: number }>();

/** One line of JSON on the log: an event's name and what belongs to it. Never a token or a secret. */
export function log(level: Level, event: string, fields: Readonly<Record<string, unknown>> = {}): void {
  const now = Date.now();
  const count = counts.get(event);
  const isNew = !count || now - count.since >= PERIOD_MS || now < count.since;
  const lines = isNew ? 1 : count.lines + 1;
  counts.set(event, { since: isNew ? now : count.since, lines });
  if (lines > MOST_LINES) return;
  const suppressed = isNew && count ? Math.max(0, count.lines - MOST_LINES) : 0;
  console[level](JSON.stringify({ event, ...fields, ...(suppressed > 0 && { suppressed }) }));
}

/** Logs what was caught, and goes on. */
export function logged(event: string): (error: unknown) => void {
  return (error) => log("warn", event, { error: String(error) });
}
