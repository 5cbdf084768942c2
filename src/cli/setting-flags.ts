import type { Flag } from "./args/spec.ts";
import { SETTINGS, type Setting } from "./settings.ts";

/** The flags of `holdfast serve`. */
export function settingFlags(settings: readonly Setting[] = SETTINGS): Flag[] {
  return settings.flatMap(flagsOf);
}

function flagsOf({ flag, env, alias, help, fallback, isBoolean }: Setting): Flag[] {
  const value = isBoolean
    ? { value: "true|false", isValueOptional: true, choices: ["true", "false"] }
    : { value: "VALUE" };
  const words = [help, fallback === undefined ? undefined : `(default: ${fallback})`, `[${env}]`];
  const shown = { ...value, name: flag, help: help && words.filter(Boolean).join(" ") };
  return alias ? [shown, { ...value, name: alias.flag }] : [shown];
}
