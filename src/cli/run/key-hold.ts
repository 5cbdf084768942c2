import { type KeptLock, takeLock, type Waiting, type Wanted } from "../service/acquire.ts";
import { fenceOf } from "../service/keys.ts";
import type { Target } from "../service/target.ts";
import type { Hold } from "./hold.ts";

/** Holds and renews a key until it is released. If the process is killed, the session's grace period frees it. */
export async function holdKey(target: Target, wanted: Wanted, waiting: Waiting): Promise<Hold> {
  const kept = await takeLock(target, wanted, waiting);
  let isLost = false;
  return {
    variables: { HOLDFAST_KEY: wanted.key, HOLDFAST_FENCE: fenceOf(kept.lock.token) },
    lost: kept.lock.lost.then(({ reason }) => {
      isLost = true;
      return `lost ${wanted.key}: ${reason}`;
    }),
    release: async () => ((await giveUp(kept)) || isLost ? undefined : unconfirmed(target, wanted.key)),
  };
}

/** Releases the lock and disconnects. False if the server did not confirm it. */
export async function giveUp({ lock, locks }: KeptLock): Promise<boolean> {
  const isGiven = await lock.release();
  // Without a connection the server cannot be told, and `release` has already waited five seconds for one.
  if (locks.problem === undefined) await locks.close();
  return isGiven;
}

/** The warning about a release that the server has not confirmed. */
export function unconfirmed({ url }: Target, key: string): string {
  return `the server at ${url} did not confirm the release of ${key}: it is free when its lease ends`;
}
