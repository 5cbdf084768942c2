import { type Command, type CommanderError, Option } from "commander";
import { type Flags, SETTINGS, type Setting } from "./settings.ts";

/** Gives a command every flag of `holdfast serve`. */
export function addSettingFlags(command: Command, settings: readonly Setting[] = SETTINGS): void {
  for (const setting of settings) {
    command.addOption(optionOf(setting));
    if (setting.alias) command.addOption(optionOf({ ...setting, ...setting.alias }).hideHelp());
  }
}

function optionOf({ flag, env, help, fallback, isBoolean }: Setting): Option {
  const words = [help, fallback === undefined ? undefined : `(default: ${fallback})`, `[${env}]`];
  const option = new Option(`${flag} ${isBoolean ? "[true|false]" : "<value>"}`, words.filter(Boolean).join(" "));
  return help === undefined ? option.hideHelp() : option;
}

/** Commander's values by flag name; a bare switch means true. */
export function flagsOf(values: Readonly<Record<string, string | true>>): Flags {
  const flags: Record<string, string> = {};
  for (const { flag, alias } of SETTINGS) {
    for (const name of alias ? [flag, alias.flag] : [flag]) {
      const value = values[new Option(name).attributeName()];
      if (value !== undefined) flags[name] = String(value);
    }
  }
  return flags;
}

/** Commander's complaint in one line. A mistyped `--auth-tokn=secret` must not end up in a log: the value is removed. */
export function complaintOf(error: CommanderError): string {
  return error.message
    .replace(/^error: /, "")
    .replace(/'(--[^'=]+)=.*'/s, "'$1'")
    .replaceAll("\n", " ")
    .replace(". Expected", ": expected")
    .replace(/\.$/, "");
}
