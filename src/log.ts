type Level = "error" | "warn" | "debug";

/** In a flood of failures the first lines tell everything: beyond this many per event and period, only count. */
const MAX_LINES = 10;
const PERIOD_MS = 10_000;
/** Further groups are counted with their event, so that an unbounded number of groups cannot use unbounded memory. */
const MAX_GROUPS = 200;

const counts = new Map<string, { since: number; lines: number }>();

/**
 * Logs one line of JSON: an event's name and its fields. Never a token or a secret. Events with one name but different
 * causes have a `group` each: floods are limited per group, so that none hides the first line of another.
 */
export function log(level: Level, event: string, fields: Readonly<Record<string, unknown>> = {}, group = ""): void {
  const now = Date.now();
  const counted = countedAs(event, group);
  const count = counts.get(counted);
  const isNew = !count || now - count.since >= PERIOD_MS || now < count.since;
  const lines = isNew ? 1 : count.lines + 1;
  counts.set(counted, { since: isNew ? now : count.since, lines });
  if (lines > MAX_LINES) return;
  const suppressed = isNew && count ? Math.max(0, count.lines - MAX_LINES) : 0;
  console[level](
    JSON.stringify({ time: new Date(now).toISOString(), event, ...fields, ...(suppressed > 0 && { suppressed }) }),
  );
}

function countedAs(event: string, group: string): string {
  const finer = group === "" ? event : `${event} ${group}`;
  return counts.has(finer) || counts.size < MAX_GROUPS ? finer : event;
}

/** Restarts the counts. For tests: otherwise one test's flood cuts the lines of the next. */
export function forgetFloods(): void {
  counts.clear();
}

/** Returns a handler that logs a caught error and continues. */
export function logged(event: string): (error: unknown) => void {
  return (error) => log("warn", event, { error: String(error) });
}
