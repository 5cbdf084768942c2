import { KeyTotals } from "../../core/key/key-gauges.ts";
import type { Transport } from "../../core/session-counts.ts";
import { logged } from "../../log.ts";
import type { Gauges } from "../../service.ts";
import { allDirectories } from "../calls/directories.ts";
import type { ShardCounts } from "../directory/directory-object.ts";
import type { Env } from "../env.ts";
import { within } from "../pacing/within.ts";

/** A report asks, and wakes, at most this many sessions and keys. */
const MAX_ASKED = 100;
/** A shard that does not count in this time is left out: it may have to wait for sessions that it probes. */
const ANSWERS_WITHIN_MS = 6_000;
const NOTHING: ShardCounts = { keys: 0, sessions: { tcp: 0, ws: 0, http: 0 }, late: 0, probed: 0 };

/** What the directory counts, without asking any key. */
interface DirectoryCounts {
  /** Live sessions of the whole service. */
  readonly sessions: Readonly<Record<Transport, number>>;
  /** Listed keys, by shard. */
  readonly listed: readonly number[];
  /** Keys that were listed late in the last minute. */
  readonly late: number;
  /** How many keys may still be asked. */
  readonly asks: number;
}

/** What the shards that answer count, and which of all shards these are. */
interface PartialCounts extends DirectoryCounts {
  readonly isAnswering: readonly boolean[];
}

/** Like `countDirectory`, without the shards that do not answer. Rejects if none does. */
export async function countAnswering(env: Env): Promise<PartialCounts> {
  const answers = await Promise.all(
    allDirectories(env).map((directory) =>
      within(ANSWERS_WITHIN_MS, directory.census()).catch(logged("directory_unreachable")),
    ),
  );
  if (!answers.some((answer) => answer)) throw new Error("no part of the directory answers");
  return { ...sumOf(answers.map((answer) => answer ?? NOTHING)), isAnswering: answers.map((answer) => !!answer) };
}

/** Counts sessions and keys. Wakes only a few sessions that have not been heard of lately. */
async function countDirectory(env: Env): Promise<DirectoryCounts> {
  return sumOf(await Promise.all(allDirectories(env).map((directory) => directory.census())));
}

function sumOf(shards: readonly ShardCounts[]): DirectoryCounts {
  const sum = (transport: Transport) => shards.reduce((total, { sessions }) => total + sessions[transport], 0);
  return {
    sessions: { tcp: sum("tcp"), ws: sum("ws"), http: sum("http") },
    listed: shards.map(({ keys }) => keys),
    late: shards.reduce((total, { late }) => total + late, 0),
    asks: MAX_ASKED - shards.reduce((total, { probed }) => total + probed, 0),
  };
}

/**
 * The numbers of the whole service. Costs the same for any number of keys: if there are more than may be asked, a random
 * sample of them is. Without `mayEstimate`, none is asked then.
 */
export async function gatherGauges(env: Env, { mayEstimate }: { readonly mayEstimate: boolean }): Promise<Gauges> {
  const { sessions, listed, late: listingBacklog, asks } = await countDirectory(env);
  const all = listed.reduce((total, count) => total + count, 0);
  const isEstimate = all > asks;
  if (isEstimate && !mayEstimate)
    return { sessions, keys: all, listingBacklog, keysSampled: 0, isEstimate, byState: undefined };
  const asked = await ask(env, listed, isEstimate ? asks / all : 1);
  const looked = asked.keys + asked.missing + asked.keysUnreachable;
  const factor = isEstimate && looked > 0 ? all / looked : 1;
  return {
    sessions,
    // Idle keys stay listed for a while.
    keys: Math.round(asked.keys * factor),
    listingBacklog,
    keysSampled: asked.keys,
    isEstimate,
    byState: {
      keysHeld: Math.round(asked.keysHeld * factor),
      locksHeld: Math.round(asked.locksHeld * factor),
      lockWaiters: Math.round(asked.lockWaiters * factor),
      semaphoreHolders: Math.round(asked.semaphoreHolders * factor),
      semaphoreWaiters: Math.round(asked.semaphoreWaiters * factor),
      keysUnreachable: Math.round(asked.keysUnreachable * factor),
    },
  };
}

/** Asks this part of the keys of each shard. */
async function ask(env: Env, listed: readonly number[], part: number): Promise<Sums> {
  const sums = new Sums();
  const answers = await Promise.all(
    allDirectories(env).flatMap((directory, shard) => {
      const share = Math.floor((listed[shard] ?? 0) * part);
      return share > 0 ? [directory.describeSome({ max: share })] : [];
    }),
  );
  for (const { keys, unreachable, asked } of answers) {
    for (const key of keys) sums.add(key);
    sums.keysUnreachable += unreachable.length;
    sums.missing += asked - keys.length - unreachable.length;
  }
  return sums;
}

class Sums extends KeyTotals {
  /** Listed keys that do not exist. */
  missing = 0;
}
