import { isErrorWord } from "../../core/metrics/families.ts";
import { STATUSES, type Status } from "../../core/protocols/statuses.ts";
import type { Meter } from "./meter.ts";

/** Counts answers that the wire protocol calls `error_…`, regardless of the protocol they are sent in. */
export function countAnswer(meter: Meter, status: Status): void {
  const word = STATUSES[status].wire;
  if (isErrorWord(word)) meter.count("errors_total", { status: word });
}
