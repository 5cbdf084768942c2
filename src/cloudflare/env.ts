import {
  type Config,
  type ConfigResult,
  OF_LISTENERS,
  readConfig,
  WITHOUT_COUNTERPART,
} from "../core/config/config.ts";
import { log } from "../log.ts";
import type { DirectoryObject } from "./directory/directory-object.ts";
import type { HttpSessionObject } from "./http-session/http-session-object.ts";
import type { KeyObject } from "./key/key-object.ts";
import type { MetricsObject } from "./metrics/metrics-object.ts";
import type { RateLimitObject } from "./rate-limit.ts";
import type { RelayObject } from "./relay/relay-object.ts";
import type { SessionObject } from "./session/session-object.ts";

/**
 * The objects. Their methods take and return plain values, never stubs, functions or streams, so results need no
 * disposal, and a result that is kept does not keep its object awake (workerd 2026-11). A method that returned a stub
 * would break this rule, and every caller would need `using`.
 *
 * For minutes after a deploy, objects and Workers of two versions call each other. So a method takes one plain object and
 * answers one, and fields may be added to both: the other version does not know them, or does not send them. `versions.test.ts`
 * has a sample for each method.
 */
export interface Env {
  readonly KEY: DurableObjectNamespace<KeyObject>;
  readonly SESSION: DurableObjectNamespace<SessionObject>;
  readonly HTTP_SESSION: DurableObjectNamespace<HttpSessionObject>;
  readonly DIRECTORY: DurableObjectNamespace<DirectoryObject>;
  readonly METRICS: DurableObjectNamespace<MetricsObject>;
  readonly RATE_LIMIT: DurableObjectNamespace<RateLimitObject>;
  readonly RELAY: DurableObjectNamespace<RelayObject>;
  /** The platform's own rate limiter, if one is bound: checked in addition to ours, never instead. */
  readonly RATE_LIMIT_GUARD?: RateLimit;
}

/**
 * What a key's object and its callers get by with: only some of the objects may be bound. What an absent one serves is
 * switched off.
 */
export type PartialEnv = Partial<Env>;

const known = new WeakMap<PartialEnv, ConfigResult>();

/** The configuration, read once. Invalid variables are logged then, by name and rule, never by value. */
export function readConfigOf(env: PartialEnv): ConfigResult {
  const before = known.get(env);
  if (before) return before;
  const result = readConfig(env as unknown as Record<string, unknown>);
  if (!result.ok) {
    const variables = result.bad.map(({ name, rule }) => `${name} ${rule}`).join("; ");
    log("error", "misconfigured", { variables });
  }
  const ignored = [...WITHOUT_COUNTERPART, ...OF_LISTENERS].filter((name) => name in env);
  if (ignored.length > 0) log("warn", "variables_ignored", { variables: ignored.join(" ") });
  known.set(env, result);
  return result;
}

/** The configuration of an object. While a variable is invalid, the Worker lets no request reach an object. */
export function configOf(env: PartialEnv): Config {
  const result = readConfigOf(env);
  if (!result.ok) throw new Error(`invalid configuration variable ${result.bad[0].name}`);
  return result.config;
}
