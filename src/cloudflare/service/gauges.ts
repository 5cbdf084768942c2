import { KeyTotals } from "../../core/key/key-gauges.ts";
import type { Transport } from "../../core/session-counts.ts";
import type { Gauges } from "../../service.ts";
import { allDirectories } from "../calls/directories.ts";
import type { Env } from "../env.ts";

/** A report asks, and wakes, at most this many sessions and keys. */
const MAX_ASKED = 100;

/** What the directory counts, without asking any key. */
interface DirectoryCounts {
  /** Live sessions of the whole service. */
  readonly sessions: Readonly<Record<Transport, number>>;
  /** Listed keys, by shard. */
  readonly listed: readonly number[];
  /** How many keys may still be asked. */
  readonly asks: number;
}

/** Counts sessions and keys. Wakes only a few sessions that have not been heard of lately. */
export async function countDirectory(env: Env): Promise<DirectoryCounts> {
  const shards = await Promise.all(allDirectories(env).map((directory) => directory.census()));
  const sum = (transport: Transport) => shards.reduce((total, { sessions }) => total + sessions[transport], 0);
  return {
    sessions: { tcp: sum("tcp"), ws: sum("ws"), http: sum("http") },
    listed: shards.map(({ keys }) => keys),
    asks: MAX_ASKED - shards.reduce((total, { probed }) => total + probed, 0),
  };
}

/**
 * The numbers of the whole service. Costs the same for any number of keys: if there are more than may be asked, a random
 * sample of them is. Without `mayEstimate`, none is asked then.
 */
export async function gatherGauges(env: Env, { mayEstimate }: { readonly mayEstimate: boolean }): Promise<Gauges> {
  const { sessions, listed, asks } = await countDirectory(env);
  const all = listed.reduce((total, count) => total + count, 0);
  const isEstimate = all > asks;
  if (isEstimate && !mayEstimate) return { sessions, keys: all, keysSampled: 0, isEstimate, byState: undefined };
  const asked = await ask(env, listed, isEstimate ? asks / all : 1);
  const looked = asked.keys + asked.missing + asked.keysUnreachable;
  const factor = isEstimate && looked > 0 ? all / looked : 1;
  return {
    sessions,
    // Idle keys stay listed for a while.
    keys: Math.round(asked.keys * factor),
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
