import { Option } from "commander";
import { OUTPUT_FLAGS, TIMEOUT } from "../args/flags.ts";
import type { CommandSpec, Flag } from "../args/spec.ts";
import { BRIDGE_HELP } from "../bridge-settings.ts";
import { CLIENT_COMMANDS, OTHER_COMMANDS } from "../commands/table.ts";
import type { FlagName } from "../file/flags.ts";
import { COMMANDS as FILE_COMMANDS } from "../file/usage.ts";
import { STALE, TAG } from "../run/flags.ts";
import { SETTINGS } from "../settings.ts";
import { SHELLS } from "./shells.ts";

const FORCE: Flag = { name: "--force", help: "release the lock of another holder" };
const FILE_FLAGS: readonly Flag[] = [TIMEOUT, STALE, TAG, FORCE];

/** What a shell needs to know about one command. */
export interface CompletedCommand {
  readonly name: string;
  readonly summary: string;
  readonly flags: readonly Pick<Flag, "name" | "short" | "value" | "choices" | "help">[];
  /** Words that may be used as operand. */
  readonly operands: readonly string[];
  /** Whether a file name follows such a word. */
  readonly takesPath: boolean;
}

/** Every command, from the same tables that parse and document them. */
export function completedCommands(): CompletedCommand[] {
  const flagsOf = { file: fileFlags(), serve: serveFlags(), bridge: bridgeFlags() };
  const operandsOf = { file: Object.keys(FILE_COMMANDS), serve: [], bridge: [] };
  const others = OTHER_COMMANDS.map(({ name, summary }) => {
    return { name, summary, flags: flagsOf[name], operands: operandsOf[name], takesPath: name === "file" };
  });
  return [...CLIENT_COMMANDS.map(completed), ...others];
}

function completed({ name, summary, flags }: CommandSpec): CompletedCommand {
  return { name, summary, flags, operands: name === "completion" ? SHELLS : [], takesPath: false };
}

/** The flags of all `file` commands together. */
function fileFlags(): CompletedCommand["flags"] {
  const names = new Set(Object.values(FILE_COMMANDS).flat());
  return [...FILE_FLAGS.filter(({ name }) => names.has(name.slice(2) as FlagName)), ...OUTPUT_FLAGS];
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
