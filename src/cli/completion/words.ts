import { Option } from "commander";
import type { CommandSpec, Flag } from "../args/spec.ts";
import { BRIDGE_HELP } from "../bridge-settings.ts";
import { CLIENT_COMMANDS, SERVER_COMMANDS } from "../commands/table.ts";
import { SETTINGS } from "../settings.ts";
import { SHELLS } from "./shells.ts";

/** What a shell is to know of one command. */
export interface CompletedCommand {
  readonly name: string;
  readonly summary: string;
  readonly flags: readonly Pick<Flag, "name" | "short" | "value" | "choices" | "help">[];
  /** Words that may stand as operand. */
  readonly operands: readonly string[];
}

/** Every command, from the same tables that parse and explain them. */
export function completedCommands(): CompletedCommand[] {
  const flagsOf = { serve: serveFlags(), bridge: bridgeFlags() };
  return [
    ...CLIENT_COMMANDS.map(completed),
    ...SERVER_COMMANDS.map(({ name, summary }) => ({ name, summary, flags: flagsOf[name], operands: [] })),
  ];
}

function completed({ name, summary, flags }: CommandSpec): CompletedCommand {
  return { name, summary, flags, operands: name === "completion" ? SHELLS : [] };
}

function serveFlags(): CompletedCommand["flags"] {
  return SETTINGS.filter(({ help }) => help !== undefined).map(({ flag, help = "", isBoolean }) => ({
    name: flag as Flag["name"],
    help,
    ...(isBoolean ? { value: "true|false", choices: ["true", "false"] } : { value: "VALUE" }),
  }));
}

function bridgeFlags(): CompletedCommand["flags"] {
  return BRIDGE_HELP.map(([flags, help]) => {
    const { long, required } = new Option(flags);
    return { name: long as Flag["name"], help, ...(required ? { value: "VALUE" } : {}) };
  });
}

/** Flags whose value is a file. */
export function wantsFile({ value }: Pick<Flag, "value">): boolean {
  return value === "FILE" || value === "PATH";
}
