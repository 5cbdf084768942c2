import { log } from "../../log.ts";
import type { CounterName, HistogramName, LabelsOf } from "../../metrics/families.ts";
import { Tally } from "../../metrics/tally.ts";
import type { Env } from "../env.ts";
import { collectorOf } from "./collectors.ts";

const REPORT_EVERY_MS = 1_000;

/** After this many failed retries in a row, the meter stops reporting until something is counted again. */
const MAX_RETRIES = 3;

/**
 * Counts for one Durable Object. Counting happens in memory and never fails; a collector receives it within about a
 * second, in at most one report per second. After a pause the report is sent immediately, so that an object in
 * occasional use is not kept awake by a timer; otherwise a timer keeps it awake until the rest is sent.
 */
export class Meter {
  readonly #env: Env;
  readonly #name: string;
  readonly #waitUntil: (promise: Promise<unknown>) => void;
  readonly #tally = new Tally();
  #isReporting = false;
  #reportedAt = Number.NEGATIVE_INFINITY;
  #failures = 0;
  /** Reports that the collector has not answered yet. */
  #unanswered = 0;

  constructor(env: Env, name: string, waitUntil: (promise: Promise<unknown>) => void) {
    this.#env = env;
    this.#name = name;
    this.#waitUntil = waitUntil;
  }

  count<Name extends CounterName>(family: Name, labels: LabelsOf<Name>, by = 1): void {
    this.#tally.count(family, labels, by);
    this.#reportInTime();
  }

  observe<Name extends HistogramName>(family: Name, labels: LabelsOf<Name>, seconds: number): void {
    this.#tally.observe(family, labels, seconds);
    this.#reportInTime();
  }

  /** Whether everything counted has reached the collector. */
  get isQuiet(): boolean {
    return this.#tally.isEmpty && this.#unanswered === 0;
  }

  /** Reports everything counted so far without waiting. If that fails, it is retried as usual. */
  async flush(): Promise<void> {
    await this.#report();
  }

  #reportInTime(): void {
    if (this.#isReporting) return;
    this.#isReporting = true;
    this.#waitUntil(this.#reportAll());
  }

  /** Reports until nothing is left or retries are used up. */
  async #reportAll(): Promise<void> {
    this.#failures = 0;
    try {
      do {
        // Even a zero pause lets the current step finish, which often counts more than once.
        await pause(Math.min(this.#reportedAt + REPORT_EVERY_MS - Date.now(), REPORT_EVERY_MS));
        await this.#report();
      } while (!this.#tally.isEmpty && this.#failures <= MAX_RETRIES);
    } finally {
      this.#isReporting = false;
    }
  }

  async #report(): Promise<void> {
    if (this.#tally.isEmpty) return;
    this.#reportedAt = Date.now();
    const sums = this.#tally.take();
    this.#unanswered += 1;
    try {
      await collectorOf(this.#env, this.#name).report(sums);
      this.#failures = 0;
    } catch (error) {
      this.#tally.merge(sums);
      this.#failures += 1;
      if (this.#failures === 1) log("warn", "metrics_not_reported", { error: String(error) });
    } finally {
      this.#unanswered -= 1;
    }
  }
}

async function pause(ms: number): Promise<void> {
  if (ms > 0) await scheduler.wait(ms);
}
