import { type ConfigResult, readConfig, WITHOUT_COUNTERPART } from "./config.ts";
import type { Env } from "./objects/env.ts";

let known: { readonly env: Env; readonly result: ConfigResult } | undefined;

/** The Worker's configuration, read once. What is wrong with it is logged then, by name and rule, never by value. */
export function serviceConfig(env: Env): ConfigResult {
  if (known?.env === env) return known.result;
  const result = readConfig(env as unknown as Record<string, unknown>);
  if (!result.ok) {
    const variables = result.bad.map(({ name, rule }) => `${name} ${rule}`).join("; ");
    console.error(JSON.stringify({ event: "misconfigured", variables }));
  }
  const ignored = WITHOUT_COUNTERPART.filter((name) => name in env);
  if (ignored.length > 0) console.warn(JSON.stringify({ event: "variables_ignored", variables: ignored.join(" ") }));
  known = { env, result };
  return result;
}
