import { allDirectories, byDirectory } from "../cloudflare/calls/directories.ts";
import type { ListedKey } from "../cloudflare/directory/directory-object.ts";
import type { DescribedKeys, Range } from "../cloudflare/directory/listed-keys.ts";
import type { Env } from "../cloudflare/env.ts";

/** Which keys to look for, and in how much detail. */
export interface Walk {
  readonly prefix: string;
  /** Starts after this key. */
  readonly after: string;
  /** Maximum number of existing keys. */
  readonly limit: number;
  /** How many keys may be asked, and woken if they sleep. At least 1. */
  readonly asks: number;
  /** Include all holders and waiters that a key reports. */
  readonly detail: boolean;
  /** Keys for which this is false are skipped. */
  readonly sees: (key: string) => boolean;
}

export interface FoundKeys {
  /** In the order of their UTF-8 bytes. */
  readonly keys: ListedKey[];
  /** Keys that are listed but cannot be read, in the same order. */
  readonly unreachable: string[];
  /** Where to continue: the last key looked at. Undefined if nothing follows. */
  readonly next: string | undefined;
}

/** Names requested from each shard at a time: first for one page, then more, because few may exist or be visible. */
const FIRST_WIDTH = 101;
const MAX_WIDTH = 2_000;

/**
 * The first keys of the directory, and the state of each. Ends early, with `next` set, when as many keys have been asked
 * as allowed. Changes nothing.
 */
export async function findKeys(env: Env, { prefix, after, limit, asks, detail, sees }: Walk): Promise<FoundKeys> {
  const found: FoundKeys & { next: string | undefined } = { keys: [], unreachable: [], next: after };
  let asksLeft = asks;
  let from: string | undefined = after;
  for (let width = Math.min(limit + 1, FIRST_WIDTH); from !== undefined; width = Math.min(width * 2, MAX_WIDTH)) {
    const names = await listKeys(env, { prefix, after: from, limit: width });
    from = names.length === width ? names.at(-1) : undefined;
    for (let rest = names.filter(sees); rest.length > 0; ) {
      const step = rest.slice(0, Math.min(limit - found.keys.length, asksLeft));
      if (step.length === 0) return found;
      const asked = await describeKeys(env, step, detail);
      found.keys.push(...asked.keys.sort((a, b) => compareBytes(a.key, b.key)));
      found.unreachable.push(...asked.unreachable);
      asksLeft -= step.length;
      found.next = step.at(-1);
      rest = rest.slice(step.length);
    }
  }
  found.next = undefined;
  return found;
}

/** The first keys of a range. Merging the first keys of all shards is complete up to the last one returned. */
async function listKeys(env: Env, range: Range): Promise<string[]> {
  const listings = await Promise.all(allDirectories(env).map((directory) => directory.list(range)));
  return listings
    .flatMap((listing) => listing.keys)
    .sort(compareBytes)
    .slice(0, range.limit);
}

/** The current state of these keys. */
async function describeKeys(env: Env, keys: readonly string[], detail: boolean): Promise<DescribedKeys> {
  const parts = await Promise.all(
    byDirectory(env, keys).map((group) => group.directory.describe(group.keys, { detail })),
  );
  return {
    keys: parts.flatMap((part) => part.keys),
    unreachable: parts.flatMap((part) => part.unreachable).sort(compareBytes),
  };
}

/** Orders texts by their UTF-8 bytes, which is the order of their code points: those of two UTF-16 units come last. */
export function compareBytes(a: string, b: string): number {
  for (let at = 0; at < a.length && at < b.length; at += 1) {
    const [x, y] = [a.charCodeAt(at), b.charCodeAt(at)];
    if (x !== y) return rankOf(x) - rankOf(y);
  }
  return a.length - b.length;
}

function rankOf(unit: number): number {
  const isHalf = unit >= 0xd800 && unit <= 0xdfff;
  return isHalf ? unit + 0x10000 : unit;
}
