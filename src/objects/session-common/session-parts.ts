import type { Config } from "../../config.ts";
import type { Activity } from "../awake/activity.ts";
import { WakeUp } from "../awake/wake-up.ts";
import { type Keys, RemoteKeys } from "../calls/remote-keys.ts";
import { configOf, type Env } from "../env.ts";
import { StorageHealth } from "../storage-probe.ts";
import { Departure } from "./departure.ts";
import { Holdings } from "./holdings.ts";
import { SessionStore } from "./session-store.ts";

/** What every session has, whatever its protocol. */
export interface SessionParts {
  readonly session: string;
  readonly config: Config;
  readonly keys: Keys;
  readonly holdings: Holdings;
  readonly store: SessionStore;
  readonly storage: StorageHealth;
  readonly wakeUp: WakeUp;
  readonly departure: Departure;
  /** Everything the session does, except listening to its socket. */
  readonly activity: Activity;
}

/** `book` may defer the session's alarms. */
export function sessionPartsOf(
  ctx: DurableObjectState,
  env: Env,
  activity: Activity,
  book?: (time: number) => number,
): SessionParts {
  const store = new SessionStore(ctx.storage);
  const parts = {
    // Objects of sessions are only ever addressed by name.
    session: ctx.id.name as string,
    config: configOf(env),
    keys: new RemoteKeys(env),
    holdings: new Holdings(store),
    store,
    storage: new StorageHealth(env),
    wakeUp: new WakeUp(ctx.storage, book),
    activity,
  };
  return { ...parts, departure: new Departure(parts) };
}
