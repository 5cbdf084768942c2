import type { CounterName, HistogramName, LabelsOf } from "../../core/metrics/families.ts";
import type { PartialEnv } from "../env.ts";
import { count, isReportDue, observe, sendReport } from "./isolate-tally.ts";

/**
 * Counts for one object or request, in memory that its whole isolate shares. Counting never fails and keeps no
 * object awake. The object or request that counts when the isolate's report is due sends it.
 */
export class Meter {
  readonly #env: PartialEnv;
  readonly #waitUntil: (promise: Promise<unknown>) => void;
  #report: Promise<void> | undefined;

  constructor(env: PartialEnv, waitUntil: (promise: Promise<unknown>) => void) {
    this.#env = env;
    this.#waitUntil = waitUntil;
  }

  count<Name extends CounterName>(family: Name, labels: LabelsOf<Name>, by = 1): void {
    count(family, labels, by);
    this.#reportIfDue();
  }

  observe<Name extends HistogramName>(family: Name, labels: LabelsOf<Name>, seconds: number): void {
    observe(family, labels, seconds);
    this.#reportIfDue();
  }

  /** Resolves when no report of this object is in flight: dropping the object would lose it. */
  async settled(): Promise<void> {
    await this.#report;
  }

  #reportIfDue(): void {
    if (this.#report || !isReportDue()) return;
    this.#report = sendReport(this.#env).finally(() => {
      this.#report = undefined;
    });
    this.#waitUntil(this.#report);
  }
}
