import type { Config } from "../../core/config/config.ts";
import { randomHex } from "../../core/hex.ts";
import { versionName } from "../../core/protocols/godistlock/relay.ts";
import type { SessionOrigin } from "../../core/session/context.ts";
import { VERSION } from "../../version.ts";
import { WakeUp } from "../alarms/wake-up.ts";
import { RemoteKeys } from "../calls/remote-keys.ts";
import { configOf, type Env } from "../env.ts";
import { SessionRows } from "./session-rows.ts";
import { SessionStore } from "./session-store.ts";

/** What every session has, whatever its protocol. */
export interface SessionParts {
  readonly session: string;
  readonly config: Config;
  readonly keys: RemoteKeys;
  readonly store: SessionStore;
  readonly wakeUp: WakeUp;
  readonly origin: SessionOrigin;
}

export function sessionPartsOf({ id, storage }: DurableObjectState, env: Env): SessionParts {
  // Objects of sessions are only ever addressed by name.
  const session = id.name as string;
  const store = new SessionStore(new SessionRows(storage));
  const config = configOf(env);
  return {
    session,
    config,
    keys: new RemoteKeys(env),
    store,
    wakeUp: new WakeUp(storage),
    origin: {
      session,
      config: { ...config, version: versionName(VERSION) },
      records: store,
      random: () => randomHex(16),
      // Cloudflare's disks do not fill up.
      isStorageWell: () => true,
      now: Date.now(),
    },
  };
}
