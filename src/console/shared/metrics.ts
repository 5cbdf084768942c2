/** One line of Prometheus' text format. */
export interface Sample {
  readonly name: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly value: number;
}

/** The samples of a scrape; other lines are ignored. */
export function samplesOf(text: string): Sample[] {
  return text.split("\n").flatMap((line) => {
    const [, name, labels = "", value] = /^([a-z_]+)(?:\{(.*)\})? (\S+)$/.exec(line) ?? [];
    if (name === undefined) return [];
    const pairs = [...labels.matchAll(/(\w+)="([^"]*)"/g)].map(([, key, text]) => [key, text]);
    return [{ name, labels: Object.fromEntries(pairs), value: Number(value) }];
  });
}

export function sumOf(samples: readonly Sample[], name: string): number {
  return samples.filter((sample) => sample.name === name).reduce((sum, { value }) => sum + value, 0);
}

/** How many observations were at most `le`, over all label sets of a histogram. */
export type Buckets = ReadonlyMap<number, number>;

export function bucketsOf(samples: readonly Sample[], histogram: string): Buckets {
  const buckets = new Map<number, number>();
  for (const { name, labels, value } of samples) {
    if (name !== `${histogram}_bucket`) continue;
    const le = labels.le === "+Inf" ? Number.POSITIVE_INFINITY : Number(labels.le);
    buckets.set(le, (buckets.get(le) ?? 0) + value);
  }
  return buckets;
}

/** The observations between two scrapes. */
export function since(before: Buckets, now: Buckets): Buckets {
  return new Map([...now].map(([le, value]) => [le, value - (before.get(le) ?? 0)]));
}

/**
 * The quantile of a histogram, interpolated within its bucket. Undefined without observations.
 */
export function quantileOf(buckets: Buckets, part: number): number | undefined {
  const bounds = [...buckets].sort(([a], [b]) => a - b);
  const total = bounds.at(-1)?.[1] ?? 0;
  if (total <= 0) return undefined;
  const wanted = total * part;
  let [low, below] = [0, 0];
  for (const [le, upTo] of bounds) {
    if (upTo >= wanted) {
      if (le === Number.POSITIVE_INFINITY || upTo === below) return low;
      return low + ((le - low) * (wanted - below)) / (upTo - below);
    }
    [low, below] = [le, upTo];
  }
  return low;
}
