import type { KeyReport } from "../../client/index.ts";
import { fit, printable } from "../output/printable.ts";
import { nameOf } from "./keys.ts";

/** What is asked about a key while waiting for it. */
export interface Inquiry {
  readonly key: string;
  /** Our own label, to find ourselves in the queue. */
  readonly label: string;
  query(key: string): Promise<KeyReport | null>;
}

const FIRST_AFTER_MS = 300;
const EVERY_MS = 1_000;
const CLEAR_LINE = "\r\x1b[K";

/** Shows the place in the queue on a terminal until it is stopped, and then clears the line. */
export function showPlace(inquiry: Inquiry, terminal: { write(text: string): unknown }, columns: number): () => void {
  const since = performance.now();
  let isOver = false;
  let isShown = false;
  let timer = setTimeout(() => void show(), FIRST_AFTER_MS);
  const show = async () => {
    // A ticket may not allow queries; then only the key is shown.
    const report = await inquiry.query(inquiry.key).catch(() => null);
    if (isOver) return;
    const line = placeLine(report, inquiry, (performance.now() - since) / 1000);
    isShown = true;
    terminal.write(`${CLEAR_LINE}${fit(line, columns - 1).trimEnd()}`);
    timer = setTimeout(() => void show(), EVERY_MS);
  };
  return () => {
    if (isOver) return;
    isOver = true;
    clearTimeout(timer);
    if (isShown) terminal.write(CLEAR_LINE);
  };
}

/** `waiting for deploy: place 2 of 5, held by ada on laptop for 12 s`. */
export function placeLine(report: KeyReport | null, { key, label }: Inquiry, waitedSeconds: number): string {
  if (!report) return printable(`waiting for ${key}`);
  // Several clients may share a label: ours is the one that has waited about as long as we have.
  const ours = report.queue
    .filter((waiter) => waiter.label === label)
    .sort((a, b) => Math.abs(a.waited_s - waitedSeconds) - Math.abs(b.waited_s - waitedSeconds));
  const place = ours[0] ? `place ${ours[0].position} of ${report.waiters}` : `${report.waiters} waiting`;
  return printable(`waiting for ${key}: ${[place, ...heldBy(report)].join(", ")}`);
}

/** `busy deploy: held by ada on laptop for 12 s, 3 waiting`. */
export function busyLine(report: KeyReport | null, key: string): string {
  const details = report ? [...heldBy(report), ...(report.waiters > 0 ? [`${report.waiters} waiting`] : [])] : [];
  return details.length === 0 ? `busy ${key}` : `busy ${key}: ${details.join(", ")}`;
}

function heldBy({ held_by: holders, limit }: KeyReport): string[] {
  const [first] = holders;
  if (!first) return [];
  if (limit > 1) return [`${holders.length} of ${limit} slots held`];
  return [`held by ${nameOf(first)} for ${Math.round(first.held_s)} s`];
}
