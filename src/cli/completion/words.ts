import { HELP } from "../args/flags.ts";
import type { Flag } from "../args/spec.ts";
import { ALL_COMMANDS } from "../commands/overview.ts";
import { FILE_COMMANDS } from "../file/table.ts";

export const SHELLS = ["bash", "zsh", "fish"] as const;

/** What a shell needs to know about one command. */
export interface CompletedCommand {
  readonly name: string;
  readonly summary: string;
  readonly flags: readonly Flag[];
  /** Words that may be used as operand. */
  readonly operands: readonly string[];
  /** Whether a file name follows such a word. */
  readonly takesPath: boolean;
}

/** Every command, from the same tables that parse and document them. */
export function completedCommands(): CompletedCommand[] {
  const fileCommands = FILE_COMMANDS.map(({ name }) => name.slice("file ".length));
  return ALL_COMMANDS.map(({ name, summary, flags }) => ({
    name,
    summary,
    flags: [...flags.filter(({ help }) => help !== undefined), HELP],
    operands: name === "completion" ? SHELLS : name === "file" ? fileCommands : [],
    takesPath: name === "file",
  }));
}

/** Flags whose value is a file. */
export function wantsFile({ value }: Flag): boolean {
  return value === "FILE" || value === "PATH";
}
