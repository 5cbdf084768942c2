import { isErrorWord } from "../../metrics/families.ts";
import { STATUSES, type Status } from "../../protocols/statuses.ts";
import type { Meter } from "./meter.ts";

/** Counts the answers that the wire protocol calls `error_…`, whatever protocol they are given in. */
export function countAnswer(meter: Meter, status: Status): void {
  const word = STATUSES[status].wire;
  if (isErrorWord(word)) meter.count("errors_total", { status: word });
}
