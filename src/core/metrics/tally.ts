import { type CounterName, FAMILIES, type HistogramName, type LabelsOf } from "./families.ts";
import { bucketOf, type CountedName, parseSeries, partName, SUM, seriesName } from "./series.ts";

/** Sums by series name, as passed between objects and stored. */
export type Sums = Readonly<Record<string, number>>;

/** Where events are counted. Counting never fails. */
export interface Counting {
  count<Name extends CounterName>(family: Name, labels: LabelsOf<Name>): void;
  observe<Name extends HistogramName>(family: Name, labels: LabelsOf<Name>, value: number): void;
}

/** Far more than the service has. It keeps a bug from filling the memory, and the tally within one stored row. */
const MAX_SUMS = 10_000;

type Label = string | number;

interface Sum {
  value: number;
}

/** Sums by the labels of their series. */
class Branch {
  sum: Sum | undefined;
  readonly #longer = new Map<Label, Branch>();

  get(label: Label): Branch | undefined {
    return this.#longer.get(label);
  }

  grow(label: Label): Branch {
    let branch = this.#longer.get(label);
    if (!branch) {
      branch = new Branch();
      this.#longer.set(label, branch);
    }
    return branch;
  }
}

/** What has been counted. Sums only ever grow; series that are not in the table of families are ignored. */
export class Tally implements Counting {
  readonly #sums = new Map<string, Sum>();
  /** Those that were counted here: to put a name together for each count would cost more than the counting. */
  #counted = new Branch();

  get isEmpty(): boolean {
    return this.#sums.size === 0;
  }

  /** New series are no longer accepted. */
  get isFull(): boolean {
    return this.#sums.size >= MAX_SUMS;
  }

  count<Name extends CounterName>(family: Name, labels: LabelsOf<Name>, by = 1): void {
    this.#add(family, labels, undefined, by);
  }

  observe<Name extends HistogramName>(family: Name, labels: LabelsOf<Name>, value: number): void {
    if (!Number.isFinite(value)) return;
    // A clock that was set back can make a short time negative.
    const amount = Math.max(0, value);
    this.#add(family, labels, bucketOf(family, amount), 1);
    this.#add(family, labels, SUM, amount);
  }

  /** Adds what was counted elsewhere. */
  merge(sums: Sums): void {
    for (const name of Object.keys(sums)) {
      const by = sums[name] ?? 0;
      const sum = isCountable(by) ? this.#sumOf(name) : undefined;
      if (sum) sum.value += by;
    }
  }

  /** A copy of the sums. */
  read(): Sums {
    return Object.fromEntries(Array.from(this.#sums, ([name, { value }]) => [name, value]));
  }

  /** Returns the sums and resets the tally. */
  take(): Sums {
    const sums = this.read();
    this.#sums.clear();
    this.#counted = new Branch();
    return sums;
  }

  #add<Name extends CountedName>(family: Name, labels: LabelsOf<Name>, part: string | undefined, by: number): void {
    if (!isCountable(by)) return;
    let branch = this.#counted.get(family);
    for (const label in FAMILIES[family].labels) branch = branch?.get(labels[label as keyof LabelsOf<Name>] as Label);
    if (part !== undefined) branch = branch?.get(part);
    const sum = branch?.sum ?? this.#grow(family, labels, part);
    if (sum) sum.value += by;
  }

  #grow<Name extends CountedName>(family: Name, labels: LabelsOf<Name>, part: string | undefined): Sum | undefined {
    const series = seriesName(family, labels);
    const sum = this.#sumOf(part === undefined ? series : partName(series, part));
    if (!sum) return undefined;
    let branch = this.#counted.grow(family);
    for (const label in FAMILIES[family].labels) branch = branch.grow(labels[label as keyof LabelsOf<Name>] as Label);
    if (part !== undefined) branch = branch.grow(part);
    branch.sum = sum;
    return sum;
  }

  /** The sum with this name; undefined if there is none and none may be added. */
  #sumOf(name: string): Sum | undefined {
    const sum = this.#sums.get(name);
    if (sum || this.isFull || !parseSeries(name)) return sum;
    const added = { value: 0 };
    this.#sums.set(name, added);
    return added;
  }
}

function isCountable(by: number): boolean {
  return by > 0 && by < Number.POSITIVE_INFINITY;
}
