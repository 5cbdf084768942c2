/** Where objects may live on Cloudflare, as the platform names the places (2026-11). No imports. */
export const LOCATIONS = [
  "wnam",
  "enam",
  "sam",
  "weur",
  "eeur",
  "apac",
  "apac-ne",
  "apac-se",
  "oc",
  "afr",
  "me",
] as const;
export type Location = (typeof LOCATIONS)[number];

export const JURISDICTIONS = ["eu", "fedramp", "us"] as const;
export type Jurisdiction = (typeof JURISDICTIONS)[number];

/** Keys whose names begin with `prefix` are placed near `hint`. */
export interface LocationHint {
  readonly prefix: string;
  readonly hint: Location;
}

/** The hints of a list of `prefix=hint`, longest prefix first; undefined if it breaks the rule. */
export function locationHintsOf(entries: readonly string[]): readonly LocationHint[] | undefined {
  const hints = entries.map(locationHintOf);
  const prefixes = new Set(hints.map((each) => each?.prefix));
  if (!hints.every((each) => each !== undefined) || prefixes.size < hints.length) return undefined;
  return hints.toSorted((one, other) => other.prefix.length - one.prefix.length);
}

/** An empty prefix fits every key. */
function locationHintOf(entry: string): LocationHint | undefined {
  const [, prefix = "", name] = /^([^=\s]*)=([a-z-]+)$/.exec(entry) ?? [];
  const hint = LOCATIONS.find((each) => each === name);
  return hint && { prefix, hint };
}

/** The region for a key: that of the longest prefix that fits. The hints are sorted by length. */
export function locationOf(hints: readonly LocationHint[], key: string): Location | undefined {
  return hints.find(({ prefix }) => key.startsWith(prefix))?.hint;
}

export function isJurisdiction(text: string): text is Jurisdiction {
  return (JURISDICTIONS as readonly string[]).includes(text);
}
