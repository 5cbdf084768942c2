import { STATUSES, type Status } from "../protocols/statuses.ts";
import { isErrorWord } from "./families.ts";
import type { Counting } from "./tally.ts";

/** Counts answers that the wire protocol calls `error_…`, regardless of the protocol they are sent in. */
export function countAnswer(meter: Pick<Counting, "count">, status: Status): void {
  const word = STATUSES[status].wire;
  if (isErrorWord(word)) meter.count("errors_total", { status: word });
}
