import type { CounterName, HistogramName, LabelsOf } from "./families.ts";
import { bucketOf, parseSeries, partName, SUM, seriesName } from "./series.ts";

/** Sums by series name, as passed between objects and stored. */
export type Sums = Readonly<Record<string, number>>;

/** Where events are counted. Counting never fails. */
export interface Counting {
  count<Name extends CounterName>(family: Name, labels: LabelsOf<Name>): void;
  observe<Name extends HistogramName>(family: Name, labels: LabelsOf<Name>, value: number): void;
}

/** Far more than the service has. It keeps a bug from filling the memory, and the tally within one stored row. */
const MAX_SUMS = 10_000;

/** What has been counted. Sums only ever grow; series that are not in the table of families are ignored. */
export class Tally implements Counting {
  readonly #sums = new Map<string, number>();

  get isEmpty(): boolean {
    return this.#sums.size === 0;
  }

  /** New series are no longer accepted. */
  get isFull(): boolean {
    return this.#sums.size >= MAX_SUMS;
  }

  count<Name extends CounterName>(family: Name, labels: LabelsOf<Name>, by = 1): void {
    this.#add(seriesName(family, labels), by);
  }

  observe<Name extends HistogramName>(family: Name, labels: LabelsOf<Name>, value: number): void {
    if (!Number.isFinite(value)) return;
    // A clock that was set back can make a short time negative.
    const amount = Math.max(0, value);
    const series = seriesName(family, labels);
    this.#add(partName(series, bucketOf(family, amount)), 1);
    this.#add(partName(series, SUM), amount);
  }

  /** Adds what was counted elsewhere. */
  merge(sums: Sums): void {
    for (const name of Object.keys(sums)) this.#add(name, sums[name] ?? 0);
  }

  /** A copy of the sums. */
  read(): Sums {
    return Object.fromEntries(this.#sums);
  }

  /** Returns the sums and resets the tally. */
  take(): Sums {
    const sums = this.read();
    this.#sums.clear();
    return sums;
  }

  #add(name: string, by: number): void {
    if (!(by > 0) || by === Number.POSITIVE_INFINITY) return;
    const sum = this.#sums.get(name);
    if (sum !== undefined) this.#sums.set(name, sum + by);
    else if (!this.isFull && parseSeries(name)) this.#sums.set(name, by);
  }
}
