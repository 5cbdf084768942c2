import { allDirectories, byDirectory } from "../objects/calls/directories.ts";
import type { ListedKey, Transport } from "../objects/directory/directory-object.ts";
import type { DescribedKeys, Range } from "../objects/directory/listed-keys.ts";
import type { Env } from "../objects/env.ts";

/** Which keys to visit, and in how much detail. */
export interface Walk {
  readonly prefix?: string;
  /** Starts after this key. */
  readonly after?: string;
  /** Maximum number of existing keys. */
  readonly limit: number;
  /** Include all holders and waiters that a key reports. */
  readonly detail?: boolean;
  /** Keys for which this is false are skipped. */
  readonly sees?: (key: string) => boolean;
}

/** One page of the walk. */
export interface Stretch {
  /** In the order of their UTF-8 bytes. */
  readonly keys: readonly ListedKey[];
  /** Keys that are listed but cannot be read, in the same order. */
  readonly unreachable: readonly string[];
  /** All live sessions of the service. */
  readonly sessions: Readonly<Record<Transport, number>>;
}

/** Limits for one call to a shard: it can reach a few thousand objects and return 32 MiB. */
const KEYS_AT_ONCE = 2_000;
const DETAILED_KEYS_AT_ONCE = 200;

/**
 * Asks the directory which keys exist, and each key for its state, page by page: there may be more than memory holds.
 * Changes nothing. There is always a first page, though it may be empty.
 */
export async function* walkKeys(env: Env, walk: Walk): AsyncGenerator<Stretch, void> {
  const { prefix = "", limit, detail = false, sees = () => true } = walk;
  const atOnce = detail ? DETAILED_KEYS_AT_ONCE : KEYS_AT_ONCE;
  let missing = limit;
  let width = Math.min(atOnce, limit);
  let after: string | undefined = walk.after ?? "";
  while (missing > 0 && after !== undefined) {
    const listing = await listKeys(env, { prefix, after, limit: width });
    const seen = listing.keys.filter(sees);
    const wanted = seen.slice(0, missing);
    const { keys, unreachable } = await describeKeys(env, wanted, detail);
    missing -= keys.length;
    // If few keys are visible, longer steps find them sooner.
    width = Math.min(atOnce, width * 2);
    after = seen.length > wanted.length ? wanted.at(-1) : listing.next;
    yield { keys, unreachable, sessions: listing.sessions };
  }
}

/** The first keys of a range. Merging the first keys of all shards is complete up to the last one returned. */
async function listKeys(env: Env, range: Range) {
  const listings = await Promise.all(allDirectories(env).map((directory) => directory.list(range)));
  const keys = listings
    .flatMap((listing) => listing.keys)
    .sort(compareBytes)
    .slice(0, range.limit);
  const sum = (transport: Transport) => listings.reduce((total, { sessions }) => total + sessions[transport], 0);
  return {
    keys,
    /** Where to continue; undefined at the end. */
    next: keys.length === range.limit ? keys.at(-1) : undefined,
    sessions: { tcp: sum("tcp"), ws: sum("ws"), http: sum("http") },
  };
}

async function describeKeys(env: Env, keys: readonly string[], detail: boolean): Promise<DescribedKeys> {
  const parts = await Promise.all(
    byDirectory(env, keys).map((group) => group.directory.describe(group.keys, { detail })),
  );
  return {
    keys: parts.flatMap((part) => part.keys).sort((a, b) => compareBytes(a.key, b.key)),
    unreachable: parts.flatMap((part) => part.unreachable).sort(compareBytes),
  };
}

/** Orders texts by their UTF-8 bytes, which is the order of their code points. */
export function compareBytes(a: string, b: string): number {
  const [left, right] = [a[Symbol.iterator](), b[Symbol.iterator]()];
  for (;;) {
    const [x, y] = [left.next(), right.next()];
    if (x.done || y.done) return Number(y.done ?? false) - Number(x.done ?? false);
    const difference = (x.value.codePointAt(0) ?? 0) - (y.value.codePointAt(0) ?? 0);
    if (difference !== 0) return difference;
  }
}
