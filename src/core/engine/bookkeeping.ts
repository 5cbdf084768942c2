import { Deadlines } from "./deadlines.ts";
import { Output } from "./output.ts";
import { RequestIndex, type SlotOrWaiter } from "./request-index.ts";
import type { StoredKey } from "./storage.ts";
import { TwoPhaseRecords } from "./two-phase-records.ts";

/** What holding, queueing and notifying have in common: indexes, deadlines, the time of the last use, and output. */
export class Bookkeeping {
  readonly output = new Output();
  readonly requests = new RequestIndex();
  readonly records: TwoPhaseRecords;
  readonly deadlines = new Deadlines<SlotOrWaiter>();
  #lastActivity: number;

  constructor({ lastActivity, lapsed }: StoredKey) {
    this.#lastActivity = lastActivity;
    this.records = new TwoPhaseRecords(lapsed, this.output);
  }

  get lastActivity(): number {
    return this.#lastActivity;
  }

  touch(at: number): void {
    if (at > this.#lastActivity) this.#lastActivity = at;
  }
}
