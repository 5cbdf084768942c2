import type { FlagName } from "./flags.ts";

const VALUES: Readonly<Record<FlagName, string>> = {
  timeout: "[--timeout S]",
  stale: "[--stale S]",
  tag: "[--tag T]",
  force: "[--force]",
};

/** The commands of `holdfast file` and the flags of each, besides the common ones. */
export const COMMANDS = {
  try: ["stale", "tag"],
  acquire: ["timeout", "stale", "tag"],
  release: ["force"],
  refresh: ["tag"],
  status: ["stale"],
  wait: ["timeout", "stale"],
  clean: ["stale"],
} as const satisfies Record<string, readonly FlagName[]>;

export type CommandName = keyof typeof COMMANDS;

export const FILE_USAGE = `holdfast file ${Object.keys(COMMANDS).join("|")} PATH [flags]`;

export function isCommand(name: string | undefined): name is CommandName {
  return name !== undefined && Object.hasOwn(COMMANDS, name);
}

export function usageOf(name: CommandName): string {
  return ["holdfast file", name, "PATH", ...COMMANDS[name].map((flag) => VALUES[flag]), "[--json] [--quiet]"].join(" ");
}
