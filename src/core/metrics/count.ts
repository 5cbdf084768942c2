import { STATUSES, type Status } from "../protocols/statuses.ts";
import type { Happening } from "../session/effects.ts";
import type { Transport } from "../session-counts.ts";
import { isErrorWord } from "./families.ts";
import type { Counting } from "./tally.ts";

/** Counts answers that the wire protocol calls `error_…`, regardless of the protocol they are sent in. */
export function countAnswer(meter: Pick<Counting, "count">, status: Status): void {
  const word = STATUSES[status].wire;
  if (isErrorWord(word)) meter.count("errors_total", { status: word });
}

/** Whether `countHappening` counts it: most answers are not errors. */
export function isCounted(happening: Happening): boolean {
  return happening.type !== "answered" || isErrorWord(STATUSES[happening.status].wire);
}

/** Counts what has happened in a session. */
export function countHappening(meter: Pick<Counting, "count">, happening: Happening, transport: Transport): void {
  if (happening.type === "answered") countAnswer(meter, happening.status);
  else if (happening.type === "protocol_error") meter.count("protocol_errors_total", { code: String(happening.code) });
  else meter.count("auth_failures_total", { transport });
}
