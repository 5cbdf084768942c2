type Level = "error" | "warn" | "debug";

/** In a flood of failures the first lines say it all: more than so many of one event in so long are only counted. */
const MAX_LINES = 10;
const PERIOD_MS = 10_000;
/** Groups beyond these are counted with their event, so that a group with no end of names costs no end of memory. */
const MAX_GROUPS = 200;

const counts = new Map<string, { since: number; lines: number }>();

/**
 * One line of JSON on the log: an event's name and what belongs to it. Never a token or a secret. Events of one name
 * that have different causes name a `group` each: floods are cut per group, so that none hides the first of another.
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

/** Logs what was caught, and goes on. */
export function logged(event: string): (error: unknown) => void {
  return (error) => log("warn", event, { error: String(error) });
}
