import type { Environment, Flags, Setting } from "./settings.ts";

const PREFIX = /^(?:DFLOCKD|HOLDFAST)_/;

/** Without a prefix, these are set in many environments for other programs. */
export const COMMON_NAMES: ReadonlySet<string> = new Set(["HOST", "PORT", "DEBUG", "DATA_DIR"]);

/**
 * A line for every environment variable that was apparently meant for a setting but is not read: the setting's name
 * without its prefix, with the other prefix, or without the unit. If it were ignored silently, `AUTH_TOKEN=… npm start`
 * would leave a service open that its operator believes closed. Values never appear.
 */
export function misnamedVariables(settings: readonly Setting[], flags: Flags, env: Environment): string[] {
  return settings.flatMap((setting) => {
    const labels = setting.alias ? [setting, setting.alias] : [setting];
    if (labels.some((label) => flags[label.flag] !== undefined || env[label.env])) return [];
    const known = new Set(labels.map((label) => label.env));
    const wrong = new Set(labels.flatMap((label) => mistakesFor(label.env)));
    return [...wrong]
      .filter((name) => !known.has(name) && env[name])
      .map((name) => `the environment variable ${name} is not read: the setting is called ${setting.env}`);
  });
}

function mistakesFor(env: string): string[] {
  const bare = env.replace(PREFIX, "");
  const names = [`DFLOCKD_${bare}`, `HOLDFAST_${bare}`];
  const withoutUnit = env.endsWith("_S") ? names.map((name) => name.slice(0, -"_S".length)) : [];
  return [...(COMMON_NAMES.has(bare) ? [] : [bare]), ...names, ...withoutUnit];
}
