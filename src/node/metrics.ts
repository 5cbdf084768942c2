import type { CounterName, HistogramName, LabelsOf } from "../core/metrics/families.ts";
import { type Counting, type Sums, Tally } from "../core/metrics/tally.ts";
import type { MeterReading } from "../service.ts";
import type { Rows } from "./store/store.ts";

/** The stored value that holds the sums. */
const SUMS = "metrics";
/** Sums are stored this often at most, and before they are reported. */
const STORE_EVERY_MS = 5_000;

/** What has been counted since the service was first started. */
export class Metrics implements Counting {
  readonly #tally = new Tally();
  readonly #startedAt: number;
  /** Calls back after some time, when the sums are due to be stored. */
  readonly #later: (ms: number) => void;
  #isChanged = false;
  #isDue = false;
  #isPlanned = false;
  /** What commits did, and nothing else, was counted since the sums were stored. */
  #hasCommits = false;

  constructor(startedAt: number, later: (ms: number) => void) {
    this.#startedAt = startedAt;
    this.#later = later;
  }

  load(values: ReadonlyMap<string, string>): void {
    const stored = values.get(SUMS);
    if (stored !== undefined) this.#tally.merge(JSON.parse(stored) as Sums);
  }

  count<Name extends CounterName>(family: Name, labels: LabelsOf<Name>): void {
    this.#tally.count(family, labels);
    this.#plan();
  }

  observe<Name extends HistogramName>(family: Name, labels: LabelsOf<Name>, seconds: number): void {
    this.#tally.observe(family, labels, seconds);
    this.#plan();
  }

  /**
   * A commit took so long and stored so many changes. It is stored with what is counted next: a commit that made another one
   * necessary would never leave an idle server in peace.
   */
  commit(seconds: number, changes: number): void {
    this.#tally.observe("commit_seconds", {}, seconds);
    this.#tally.observe("commit_changes", {}, changes);
    this.#hasCommits = true;
  }

  commitFailed(): void {
    this.#tally.count("commits_failed_total", {});
    this.#hasCommits = true;
  }

  /** The next commit stores the sums: they have not been stored for long. */
  storeNow(): void {
    this.#isDue = this.#isChanged;
  }

  /** The sums as they are, which the next commit stores: they are about to be reported. */
  readToReport(): MeterReading {
    this.#isDue = this.#isChanged || this.#hasCommits;
    return { sums: this.#tally.read(), startedAt: this.#startedAt };
  }

  get hasChanges(): boolean {
    return this.#isDue;
  }

  write(rows: Rows): void {
    if (!this.#isDue) return;
    rows.putValue(SUMS, JSON.stringify(this.#tally.read()));
    // The commit that this is part of is counted afterwards.
    this.#hasCommits = false;
  }

  committed(): void {
    if (!this.#isDue) return;
    this.#isDue = false;
    this.#isChanged = false;
    this.#isPlanned = false;
  }

  /** The sums could not be stored: they wait, so that nothing else fails because of them. */
  takeBack(): void {
    if (this.#isDue) this.storeLater();
  }

  /** The sums are due, but cannot be stored now. */
  storeLater(): void {
    this.#isDue = false;
    this.#isPlanned = false;
    this.#plan();
  }

  #plan(): void {
    this.#isChanged = true;
    if (this.#isPlanned) return;
    this.#isPlanned = true;
    this.#later(STORE_EVERY_MS);
  }
}
