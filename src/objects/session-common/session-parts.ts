import type { Config } from "../../config.ts";
import { randomHex } from "../../hex.ts";
import { versionName } from "../../protocols/godistlock/relay.ts";
import type { SessionOrigin } from "../../session/context.ts";
import { VERSION } from "../../version.ts";
import type { Activity } from "../awake/activity.ts";
import { WakeUp } from "../awake/wake-up.ts";
import { RemoteKeys } from "../calls/remote-keys.ts";
import { configOf, type Env } from "../env.ts";
import { StorageHealth } from "../storage-probe.ts";
import { SessionStore } from "./session-store.ts";

/** What every session has, whatever its protocol. */
export interface SessionParts {
  readonly session: string;
  readonly config: Config;
  readonly keys: RemoteKeys;
  readonly store: SessionStore;
  readonly storage: StorageHealth;
  readonly wakeUp: WakeUp;
  /** Everything the session does, except listening to its socket. */
  readonly activity: Activity;
  readonly origin: SessionOrigin;
}

/** `book` may defer the session's alarms. */
export function sessionPartsOf(
  ctx: DurableObjectState,
  env: Env,
  activity: Activity,
  book?: (time: number) => number,
): SessionParts {
  const store = new SessionStore(ctx.storage);
  // Objects of sessions are only ever addressed by name.
  const session = ctx.id.name as string;
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
    wakeUp: new WakeUp(ctx.storage, book),
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
