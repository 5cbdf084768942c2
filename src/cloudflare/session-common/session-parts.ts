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

/** The parts of every session's object, whatever its protocol. */
export interface CommonParts {
  readonly ctx: DurableObjectState;
  readonly env: Env;
  /** What keys and the directory call the session. */
  readonly name: string;
  readonly config: Config;
  readonly keys: RemoteKeys;
  readonly store: SessionStore;
  readonly wakeUp: WakeUp;
  readonly origin: SessionOrigin;
}

export function commonPartsOf(ctx: DurableObjectState, env: Env): CommonParts {
  // The session of a socket has an object without a name.
  const name = ctx.id.name ?? ctx.id.toString();
  const store = new SessionStore(new SessionRows(ctx.storage));
  const config = configOf(env);
  return {
    ctx,
    env,
    name,
    config,
    keys: new RemoteKeys(env),
    store,
    wakeUp: new WakeUp(ctx.storage),
    origin: {
      session: name,
      config: { ...config, version: versionName(VERSION) },
      records: store,
      random: () => randomHex(16),
      // Cloudflare's disks do not fill up.
      isStorageWell: () => true,
      now: Date.now(),
    },
  };
}
