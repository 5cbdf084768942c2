import type { Config } from "../../core/config/config.ts";
import { randomHex } from "../../core/hex.ts";
import { versionName } from "../../core/protocols/godistlock/relay.ts";
import type { SessionOrigin } from "../../core/session/context.ts";
import { VERSION } from "../../version.ts";
import type { Activity } from "../awake/activity.ts";
import type { Alarm } from "../awake/wake-up.ts";
import { RemoteKeys } from "../calls/remote-keys.ts";
import { configOf, type Env } from "../env.ts";
import { StorageHealth } from "../storage-probe.ts";
import type { SessionRows } from "./session-rows.ts";
import { SessionStore } from "./session-store.ts";

/** What every session has, whatever its protocol. */
export interface SessionParts {
  readonly session: string;
  readonly config: Config;
  readonly keys: RemoteKeys;
  readonly store: SessionStore;
  readonly storage: StorageHealth;
  readonly wakeUp: Alarm;
  /** Everything the session does, except listening to its socket. */
  readonly activity: Activity;
  readonly origin: SessionOrigin;
}

/** What an object has for a session. */
interface Place {
  readonly session: string;
  readonly rows: SessionRows;
  readonly wakeUp: Alarm;
}

export function sessionPartsOf({ session, rows, wakeUp }: Place, env: Env, activity: Activity): SessionParts {
  const store = new SessionStore(rows);
  const config = configOf(env);
  const storage = new StorageHealth(env);
  const random = () => randomHex(16);
  const isStorageWell = () => storage.mayStore() === true;
  return {
    session,
    config,
    keys: new RemoteKeys(env),
    store,
    storage,
    wakeUp,
    activity,
    origin: {
      session,
      config: { ...config, version: versionName(VERSION) },
      records: store,
      random,
      isStorageWell,
      now: Date.now(),
    },
  };
}
