import { KeyTotals } from "../../core/key/key-gauges.ts";
import type { Transport } from "../../core/session-counts.ts";
import type { Gauges } from "../../service.ts";
import { allDirectories } from "../calls/directories.ts";
import type { Env } from "../env.ts";
import { countKnown, knownKeys } from "../known-keys/known-keys.ts";
import { describeKeys } from "./key-walk.ts";

/** A report asks, and wakes, at most this many sessions and keys. */
const MAX_ASKED = 100;

/** What the directory counts, without asking any key. */
interface Census {
  /** Live sessions of the whole service. */
  readonly sessions: Readonly<Record<Transport, number>>;
  /** Listed keys, by shard. */
  readonly listed: readonly number[];
  /** How many keys may still be asked. */
  readonly asks: number;
}

/** Counts sessions and keys. Wakes only a few sessions that have not been heard of lately. */
export async function takeCensus(env: Env): Promise<Census> {
  const shards = await Promise.all(allDirectories(env).map((directory) => directory.census()));
  const sum = (transport: Transport) => shards.reduce((total, { sessions }) => total + sessions[transport], 0);
  return {
    sessions: { tcp: sum("tcp"), ws: sum("ws"), http: sum("http") },
    listed: shards.map(({ keys }) => keys),
    asks: MAX_ASKED - shards.reduce((total, { probed }) => total + probed, 0),
  };
}

/**
 * The numbers of the whole service. Costs the same for any number of keys: those that this process knows are added up,
 * and if there are more others than may be asked, a random sample of them is. Without `mayEstimate`, none is asked then.
 */
export async function gatherGauges(env: Env, { mayEstimate }: { readonly mayEstimate: boolean }): Promise<Gauges> {
  const { sessions, listed, asks } = await takeCensus(env);
  const known = new Sums();
  const unsettled: string[] = [];
  for (const [key, sight] of knownKeys(env)) {
    if (sight === "unknown") unsettled.push(key);
    else if (sight !== "gone") known.add(sight);
  }
  const all = listed.reduce((total, count) => total + count, 0);
  const unknown = Math.max(0, all - countKnown());
  const isEstimate = unsettled.length + unknown > asks;
  if (isEstimate && !mayEstimate)
    return { sessions, keys: all, keysSampled: known.keys, isEstimate, byState: undefined };
  const asked = await ask(env, { unsettled, unknown, listed, asks });
  const looked = asked.keys + asked.missing + asked.keysUnreachable;
  const factor = isEstimate && looked > 0 ? (unsettled.length + unknown) / looked : 1;
  return {
    sessions,
    keys: isEstimate ? all : known.keys + asked.keys,
    keysSampled: known.keys + asked.keys,
    isEstimate,
    byState: {
      keysHeld: known.keysHeld + Math.round(asked.keysHeld * factor),
      locksHeld: known.locksHeld + Math.round(asked.locksHeld * factor),
      lockWaiters: known.lockWaiters + Math.round(asked.lockWaiters * factor),
      semaphoreHolders: known.semaphoreHolders + Math.round(asked.semaphoreHolders * factor),
      semaphoreWaiters: known.semaphoreWaiters + Math.round(asked.semaphoreWaiters * factor),
      keysUnreachable: Math.round(asked.keysUnreachable * factor),
    },
  };
}

interface Questions {
  /** Keys that this process knows, but whose state only they can tell now. */
  readonly unsettled: readonly string[];
  /** How many other keys there are that this process does not know. */
  readonly unknown: number;
  readonly listed: readonly number[];
  readonly asks: number;
}

/** Asks all these keys, or as many as may be asked. Each shard has its share of the unknown ones. */
async function ask(env: Env, { unsettled, unknown, listed, asks }: Questions): Promise<Sums> {
  const sums = new Sums();
  const direct = unsettled.slice(0, asks);
  const left = asks - direct.length;
  const all = listed.reduce((total, count) => total + count, 0);
  const shareOf = (count: number) => (unknown <= left ? Math.min(count, unknown) : Math.floor((left * count) / all));
  const answers = await Promise.all([
    describeKeys(env, direct, false).then((described) => ({ ...described, asked: direct.length })),
    ...allDirectories(env).flatMap((directory, shard) => {
      const share = unknown > 0 ? shareOf(listed[shard] ?? 0) : 0;
      return share > 0 ? [directory.describeSome(share)] : [];
    }),
  ]);
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
