import {
  type CounterName,
  FAMILIES,
  type FamilyRule,
  type HistogramName,
  isAllowed,
  isFamily,
  type LabelsOf,
} from "./families.ts";

export type CountedName = CounterName | HistogramName;

/** One sum of a tally: a counter's series, or one part of a histogram's. */
export interface Series {
  readonly family: CountedName;
  /** The values of the labels, in the order of the family's table. */
  readonly values: readonly string[];
  /** For a histogram: `sum`, or the bound of a bucket. Empty for a counter. */
  readonly part: string;
}

export const SUM = "sum";
export const UNBOUNDED = "+Inf";

/** Separates the parts of a name. No label value may contain it. */
const SEPARATOR = "|";

/** The name of a counter's series, such as `grants_total|lock|immediate`. */
export function seriesName<Name extends CountedName>(family: Name, labels: LabelsOf<Name>): string {
  let name: string = family;
  for (const label in FAMILIES[family].labels) name += SEPARATOR + String(labels[label as keyof LabelsOf<Name>]);
  return name;
}

/** The name of one part of a histogram's series, such as `lock_wait_seconds|lock|0.5`. */
export function partName(series: string, part: string): string {
  return series + SEPARATOR + part;
}

/** The bucket of an observation, named after its inclusive upper bound. */
export function bucketOf(family: HistogramName, value: number): string {
  const bound = FAMILIES[family].buckets.find((candidate) => value <= candidate);
  return bound === undefined ? UNBOUNDED : String(bound);
}

/** Parses a name; undefined if it is no counter or histogram of the table, or a label value is not allowed. */
export function parseSeries(name: string): Series | undefined {
  const [family = "", ...values] = name.split(SEPARATOR);
  if (!isFamily(family)) return undefined;
  const rule: FamilyRule = FAMILIES[family];
  if (rule.type === "gauge") return undefined;
  const part = rule.type === "histogram" ? (values.pop() ?? "") : "";
  if (rule.type === "histogram" && !isPart(rule.buckets, part)) return undefined;
  const labelRules = Object.values(rule.labels);
  if (values.length !== labelRules.length) return undefined;
  const areAllowed = labelRules.every((labelRule, index) => isAllowed(labelRule, values[index] ?? ""));
  return areAllowed ? { family: family as CountedName, values, part } : undefined;
}

function isPart(buckets: readonly number[], part: string): boolean {
  return part === SUM || part === UNBOUNDED || buckets.some((bound) => String(bound) === part);
}
