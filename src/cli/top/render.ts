import { fit, printable } from "../output/printable.ts";
import { type KeyInUse, type KeyPage, nameOf } from "../service/keys.ts";

export interface View {
  readonly url: string;
  readonly prefix: string;
  readonly page: KeyPage;
  /** The age of the page: leases have run on since. */
  readonly ageSeconds: number;
  /** Why there is no newer page. */
  readonly problem: string | undefined;
}

export interface Screen {
  readonly columns: number;
  readonly rows: number;
  /** How many lines of the list are scrolled off. */
  readonly offset: number;
}

/** A line and its style. */
export interface Line {
  readonly text: string;
  readonly style: "plain" | "bold" | "dim" | "reverse" | "warning";
}

/** Below this width only names are shown: the rest would push them out. */
const NARROW = 40;
const HEAD_ROWS = 2;
const FOOT_ROWS = 1;

/** Exactly `rows` lines of exactly `columns` columns, whatever the size of the terminal. */
export function renderScreen(view: View, screen: Screen): Line[] {
  const body = bodyOf(view, screen.columns);
  const room = Math.max(0, screen.rows - HEAD_ROWS - FOOT_ROWS);
  const offset = clampOffset(screen.offset, body.length, screen);
  const shown = body.slice(offset, offset + room);
  const hidden = body.length - offset - shown.length;
  const blank: Line = { text: "", style: "plain" };
  const lines = [
    ...headOf(view),
    ...shown,
    ...Array.from({ length: room - shown.length }, () => blank),
    footOf(view, hidden, screen.columns),
  ];
  return lines.slice(0, screen.rows).map(({ text, style }) => ({ text: fit(text, screen.columns), style }));
}

/** Scrolling ends where the last line is at the bottom of the screen. */
export function clampOffset(offset: number, lines: number, { rows }: Pick<Screen, "rows">): number {
  const room = Math.max(0, rows - HEAD_ROWS - FOOT_ROWS);
  return Math.max(0, Math.min(offset, lines - room));
}

/** How many lines there are to scroll through. */
export function bodyLength(view: View, columns: number): number {
  return bodyOf(view, columns).length;
}

/** Everything, as plain text. */
export function renderSnapshot(view: View): string[] {
  const lines = [...headOf(view), ...bodyOf(view, Number.POSITIVE_INFINITY)];
  return lines.map(({ text }) => text.trimEnd());
}

function headOf({ url, prefix, page }: View): Line[] {
  const waiters = page.keys.reduce((sum, key) => sum + key.waiters, 0);
  const holders = page.keys.reduce((sum, key) => sum + key.holders, 0);
  const scope = prefix === "" ? "" : ` ${printable(prefix)}*`;
  const unreadable = page.unreachable > 0 ? `, ${page.unreachable} unreadable` : "";
  return [
    { text: `holdfast ${url}${scope}`, style: "bold" },
    {
      text: `${counted(page.connections, "connection")}, ${counted(page.keys.length, "key")}, ${holders} held, ${waiters} waiting, ${page.idle} idle${unreadable}`,
      style: "plain",
    },
  ];
}

function counted(count: number, noun: string): string {
  return `${count} ${noun}${count === 1 ? "" : "s"}`;
}

function footOf({ problem, page }: View, hidden: number, columns: number): Line {
  if (problem !== undefined) return { text: printable(problem), style: "warning" };
  const more = page.next === undefined ? "" : ", more keys: give a PREFIX";
  const below = hidden > 0 ? `, ${hidden} lines below` : "";
  return { text: columns < NARROW ? `q quits${below}` : `q quits, arrows scroll${below}${more}`, style: "dim" };
}

function bodyOf({ page, ageSeconds }: View, columns: number): Line[] {
  if (page.keys.length === 0) return [{ text: "nothing is held", style: "dim" }];
  return page.keys.flatMap((key) => linesOf(key, ageSeconds, columns));
}

function linesOf(key: KeyInUse, ageSeconds: number, columns: number): Line[] {
  const isNarrow = columns < NARROW;
  const counts = `${key.holders}/${key.limit} held, ${key.waiters} waiting`;
  const unlisted = key.waiters - key.queue.length;
  return [
    { text: isNarrow ? printable(key.key) : `${printable(key.key)}  ${counts}`, style: "reverse" },
    ...key.held_by.map((holder): Line => {
      const leftSeconds = Math.max(0, holder.lease_expires_in_s - ageSeconds);
      const name = printable(nameOf(holder));
      const bar = isNarrow ? "" : ` ${leaseBar(leftSeconds / holder.lease_s)}`;
      const held = isNarrow ? "" : `, held ${duration(holder.held_s + ageSeconds)}`;
      return { text: `  ● ${duration(leftSeconds).padStart(5)}${bar} ${name}${held}`, style: "plain" };
    }),
    ...key.queue.map((waiter): Line => {
      const waited = isNarrow ? "" : `, waiting ${duration(waiter.waited_s + ageSeconds)}`;
      return { text: `  ${String(waiter.position).padStart(3)}. ${printable(nameOf(waiter))}${waited}`, style: "dim" };
    }),
    ...(unlisted > 0 ? [{ text: `  and ${unlisted} more`, style: "dim" } as const] : []),
  ];
}

const BAR = 10;

/** How much of a lease is left. */
function leaseBar(part: number): string {
  const full = Math.round(Math.max(0, Math.min(1, part)) * BAR);
  return `[${"=".repeat(full)}${" ".repeat(BAR - full)}]`;
}

/** `7s`, `3m12s`, `2h05m`, `3d04h`. */
export function duration(seconds: number): string {
  const whole = Math.floor(seconds);
  const two = (count: number) => String(count).padStart(2, "0");
  if (whole < 60) return `${whole}s`;
  if (whole < 3_600) return `${Math.floor(whole / 60)}m${two(whole % 60)}s`;
  if (whole < 86_400) return `${Math.floor(whole / 3_600)}h${two(Math.floor((whole % 3_600) / 60))}m`;
  return `${Math.floor(whole / 86_400)}d${two(Math.floor((whole % 86_400) / 3_600))}h`;
}
