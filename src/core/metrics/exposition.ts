import { FAMILIES, type FamilyName, type FamilyRule, type GaugeName, type LabelsOf } from "./families.ts";
import { parseSeries, type Series, SUM, UNBOUNDED } from "./series.ts";
import type { Sums } from "./tally.ts";

/** The value of a gauge that is not exact. */
export interface Estimate {
  readonly estimate: number;
}

/**
 * A gauge without labels has a value, and no sample if that is undefined; one with labels carries its information in
 * them and has the value 1.
 */
export type Gauges = {
  readonly [Name in GaugeName]: Record<never, never> extends LabelsOf<Name>
    ? number | Estimate | undefined
    : LabelsOf<Name>;
};

const ESTIMATED: Labels = [["estimated", "true"]];

export const EXPOSITION_TYPE = "text/plain; version=0.0.4; charset=utf-8";

const PREFIX = "dflockd_";

type Labels = readonly (readonly [name: string, value: string])[];

/** A series with at least one known sum; a counter's sum has an empty part. */
interface Sample {
  readonly values: readonly string[];
  readonly parts: Map<string, number>;
}

/**
 * The metrics in Prometheus' text format. Every family is included, in the order of its table; series are sorted by
 * their label values. Series that the table does not know are left out, so the text is bounded whatever was counted.
 */
export function renderExposition(sums: Sums, gauges: Gauges): string {
  const samples = samplesByFamily(sums);
  const lines: string[] = [];
  for (const [name, rule] of Object.entries<FamilyRule>(FAMILIES)) {
    const family = name as FamilyName;
    lines.push(`# HELP ${PREFIX}${name} ${escapeHelp(rule.help)}`, `# TYPE ${PREFIX}${name} ${rule.type}`);
    if (rule.type === "gauge") lines.push(...gaugeLines(family as GaugeName, gauges));
    else lines.push(...linesOf(family, rule, samples.get(family) ?? []));
  }
  return `${lines.join("\n")}\n`;
}

function samplesByFamily(sums: Sums): Map<FamilyName, Sample[]> {
  const bySeries = new Map<string, Series & Sample>();
  for (const [name, sum] of Object.entries(sums)) {
    const series = parseSeries(name);
    if (!series) continue;
    const id = [series.family, ...series.values].join("\n");
    const sample = bySeries.get(id) ?? { ...series, parts: new Map<string, number>() };
    sample.parts.set(series.part, sum);
    bySeries.set(id, sample);
  }
  return Map.groupBy([...bySeries.values()].sort(byValues), ({ family }) => family);
}

function byValues({ values: a }: Sample, { values: b }: Sample): number {
  const index = a.findIndex((value, at) => value !== b[at]);
  return index === -1 ? 0 : (a[index] ?? "") < (b[index] ?? "") ? -1 : 1;
}

function linesOf(family: FamilyName, rule: FamilyRule, samples: readonly Sample[]): string[] {
  const names = Object.keys(rule.labels);
  if (samples.length === 0 && names.length === 0 && rule.type === "counter") return [line(family, [], 0)];
  return samples.flatMap(({ values, parts }) => {
    const labels: Labels = names.map((name, index) => [name, values[index] ?? ""]);
    if (rule.type !== "histogram") return [line(family, labels, parts.get("") ?? 0)];
    return histogramLines(family, labels, rule.buckets, parts);
  });
}

function histogramLines(
  family: FamilyName,
  labels: Labels,
  bounds: readonly number[],
  parts: ReadonlyMap<string, number>,
): string[] {
  let count = 0;
  const buckets = [...bounds.map(String), UNBOUNDED].map((bound) => {
    count += parts.get(bound) ?? 0;
    return line(`${family}_bucket`, [...labels, ["le", bound]], count);
  });
  return [...buckets, line(`${family}_sum`, labels, parts.get(SUM) ?? 0), line(`${family}_count`, labels, count)];
}

function gaugeLines(family: GaugeName, gauges: Gauges): string[] {
  const gauge = gauges[family];
  if (gauge === undefined) return [];
  if (typeof gauge === "number") return [line(family, [], gauge)];
  if ("estimate" in gauge) return [line(family, ESTIMATED, gauge.estimate)];
  const labels = Object.entries(gauge).map(([name, value]) => [name, String(value)] as const);
  return [line(family, labels, 1)];
}

function line(name: string, labels: Labels, value: number): string {
  const text = labels.map(([label, content]) => `${label}="${escapeLabel(content)}"`).join(",");
  return `${PREFIX}${name}${text && `{${text}}`} ${formatNumber(value)}`;
}

function formatNumber(value: number): string {
  if (value === Number.POSITIVE_INFINITY) return "+Inf";
  return value === Number.NEGATIVE_INFINITY ? "-Inf" : String(value);
}

function escapeLabel(text: string): string {
  return escapeHelp(text).replaceAll('"', '\\"');
}

function escapeHelp(text: string): string {
  return text.replaceAll("\\", "\\\\").replaceAll("\n", "\\n");
}
