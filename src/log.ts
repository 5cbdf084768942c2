type Level = "error" | "warn" | "debug";

/**
 * Logs one event: its name and its fields. Never a token or a secret. Events with one name but different causes have a
 * `group` each: floods are limited per group, so that none hides the first line of another.
 */
export type Log = (level: Level, event: string, fields?: Readonly<Record<string, unknown>>, group?: string) => void;

/** Takes one line of JSON. */
export type LogSink = (level: Level, line: string) => void;

/** In a flood of failures the first lines tell everything: beyond this many per event and period, only count. */
const MAX_LINES = 10;
const PERIOD_MS = 10_000;
/** Further groups are counted with their event, so that an unbounded number of groups cannot use unbounded memory. */
const MAX_GROUPS = 200;

/** Lines by event and group, since the time of the first. */
type Counts = Map<string, { since: number; lines: number }>;

/** A log that limits its own floods. */
export function createLog(sink: LogSink, counts: Counts = new Map()): Log {
  const countedAs = (event: string, group: string) => {
    const finer = group === "" ? event : `${event} ${group}`;
    return counts.has(finer) || counts.size < MAX_GROUPS ? finer : event;
  };
  return (level, event, fields = {}, group = "") => {
    const now = Date.now();
    const name = countedAs(event, group);
    const count = counts.get(name);
    const isNew = !count || now - count.since >= PERIOD_MS || now < count.since;
    const lines = isNew ? 1 : count.lines + 1;
    counts.set(name, { since: isNew ? now : count.since, lines });
    if (lines > MAX_LINES) return;
    const suppressed = isNew && count ? Math.max(0, count.lines - MAX_LINES) : 0;
    sink(
      level,
      JSON.stringify({ time: new Date(now).toISOString(), event, ...fields, ...(suppressed > 0 && { suppressed }) }),
    );
  };
}

const counted: Counts = new Map();

/** The log of this process, or of this isolate. */
export const log = createLog((level, line) => console[level](line), counted);

/** Restarts the counts. For tests: otherwise one test's flood cuts the lines of the next. */
export function forgetFloods(): void {
  counted.clear();
}

/** Returns a handler that logs a caught error and continues. */
export function logged(event: string, to: Log = log): (error: unknown) => void {
  return (error) => to("warn", event, { error: String(error) });
}
