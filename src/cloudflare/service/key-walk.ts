import { compareBytes } from "../../core/byte-order.ts";
import type { KeyPage, KeyRange, KeyReport } from "../../service.ts";
import { allDirectories, byDirectory } from "../calls/directories.ts";
import type { DescribedKeys, Range } from "../directory/listed-keys.ts";
import type { Env } from "../env.ts";

/** Which keys to look for, and how many of them may be asked, and woken if they sleep. At least 1. */
interface Walk extends KeyRange {
  readonly asks: number;
  /** Of all shards, which are asked for their keys. */
  readonly isAnswering: readonly boolean[];
}

/** A key that was asked, or one that this process knows: then it has no members to show. */
type FoundKey = KeyReport & { readonly key: string };

/** Names requested from each shard at a time: first for one page, then more, because few may exist or be visible. */
const FIRST_WIDTH = 101;
const MAX_WIDTH = 2_000;

/**
 * The first keys of the directory, and the state of each. Ends early, with `next` set, when as many keys have been asked
 * as allowed. Changes nothing.
 */
export async function findKeys(
  env: Env,
  { prefix, after, limit, asks, isAnswering, detail, sees }: Walk,
): Promise<Omit<KeyPage, "sessions" | "isBehind">> {
  const found = { keys: [] as FoundKey[], unreachable: [] as string[], next: after as string | undefined };
  const shards = allDirectories(env).filter((_, shard) => isAnswering[shard]);
  let asksLeft = asks;
  let from: string | undefined = after;
  for (let width = Math.min(limit + 1, FIRST_WIDTH); from !== undefined; width = Math.min(width * 2, MAX_WIDTH)) {
    const names = await listKeys(shards, { prefix, after: from, limit: width });
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
async function listKeys(shards: ReturnType<typeof allDirectories>, range: Range): Promise<string[]> {
  const listings = await Promise.all(shards.map((directory) => directory.list(range)));
  return listings
    .flatMap((listing) => listing.keys)
    .sort(compareBytes)
    .slice(0, range.limit);
}

/** The current state of these keys. */
async function describeKeys(env: Env, keys: readonly string[], detail: boolean): Promise<DescribedKeys> {
  const parts = await Promise.all(
    byDirectory(env, keys).map((group) => group.directory.describe({ keys: group.keys, detail })),
  );
  return {
    keys: parts.flatMap((part) => part.keys),
    unreachable: parts.flatMap((part) => part.unreachable).sort(compareBytes),
  };
}
