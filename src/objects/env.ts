import { type Config, readConfig } from "../config.ts";
import type { DirectoryObject } from "./directory.ts";
import type { KeyObject } from "./key.ts";
import type { SessionObject } from "./session.ts";

export interface Env {
  readonly KEY: DurableObjectNamespace<KeyObject>;
  readonly SESSION: DurableObjectNamespace<SessionObject>;
  readonly DIRECTORY: DurableObjectNamespace<DirectoryObject>;
}

/** The configuration of an object. The Worker lets nobody reach an object while a variable is bad. */
export function configOf(env: Env): Config {
  const result = readConfig(env as unknown as Record<string, unknown>);
  if (!result.ok) throw new Error(`invalid configuration variable ${result.bad[0].name}`);
  return result.config;
}
