import type { Config } from "../config.ts";
import { logged } from "../log.ts";
import { inBatches } from "./batches.ts";
import { configOf, type Env } from "./env.ts";
import { Holdings } from "./holdings.ts";
import { type Keys, RemoteKeys } from "./keys.ts";
import { SessionStore } from "./session-store.ts";
import { WakeUp } from "./wake-up.ts";

const LEFT_AT_ONCE = 32;
const RETRY_MS = 1_000;

/** What every session has, whatever its client speaks. */
export interface Belongings {
  readonly session: string;
  readonly config: Config;
  readonly keys: Keys;
  readonly holdings: Holdings;
  readonly store: SessionStore;
  readonly wakeUp: WakeUp;
}

export function belongingsOf(ctx: DurableObjectState, env: Env): Belongings {
  const store = new SessionStore(ctx.storage);
  return {
    // Objects of sessions are only ever addressed by name.
    session: ctx.id.name as string,
    config: configOf(env),
    keys: new RemoteKeys(env),
    holdings: new Holdings(store),
    store,
    wakeUp: new WakeUp(ctx.storage),
  };
}

/**
 * Leaves every key that a session has used, then deletes what is stored of the session. A key that cannot be reached
 * does not stop the others and is tried again from the alarm, also after a crash.
 */
export async function depart(belongings: Belongings): Promise<void> {
  const { holdings, store, wakeUp } = belongings;
  const keys = store.keys().filter((key) => !holdings.isSpent(key));
  if (keys.length > 0) {
    store.noteEnding();
    wakeUp.set(Date.now() + RETRY_MS);
  }
  const left = await inBatches(keys, LEFT_AT_ONCE, (key) => leaveKey(belongings, key));
  if (left.every(Boolean)) await store.deleteAll();
  else store.forget(keys.filter((_, index) => left[index]));
}

async function leaveKey({ session, config, keys }: Belongings, key: string): Promise<boolean> {
  try {
    await keys.leave(key, session, { keepsReported: !config.autoRelease });
    return true;
  } catch (error) {
    logged("key_unreachable")(error);
    return false;
  }
}
