import type { Arguments } from "./parse.ts";

/** A flag of a command. */
export interface Flag {
  readonly name: `--${string}`;
  readonly short?: `-${string}`;
  /** Placeholder for its value in the help. A flag without one is a switch. */
  readonly value?: string | undefined;
  /** Whether the value may be left out: `--draining` is `--draining true`. */
  readonly isValueOptional?: boolean;
  /** The values that the shell offers, if they can be listed. */
  readonly choices?: readonly string[];
  /** A flag without help is understood but not shown. */
  readonly help?: string | undefined;
}

/** The command line of one command. Help, parser, completion and documentation are generated from it. */
export interface CommandSpec {
  /** As typed after `holdfast`: `lock`, or `file try`. */
  readonly name: string;
  /** One line of `holdfast --help`. */
  readonly summary: string;
  /** What it does, in a few lines of at most 80 columns. */
  readonly about: string;
  /** Names of its operands, in order: `KEY`, `[PREFIX]` if optional, `KEY…` for one or more. */
  readonly operands: readonly string[];
  /** Whether a command to run may or must follow `--`. */
  readonly command?: "optional" | "required";
  readonly flags: readonly Flag[];
  /** Short form of what follows the name in the usage, where operands and flags would be too much. */
  readonly usage?: string;
  /** Command lines, without `holdfast`, and what they do. */
  readonly examples: readonly (readonly [line: string, meaning: string])[];
}

/** A command and the module that runs it, which is loaded on demand. `main` resolves with the exit code. */
export interface Command extends CommandSpec {
  load(): Promise<{ main(args: Arguments): Promise<number> }>;
}

/** `usage: holdfast lock KEY [--limit N] … [-- COMMAND …]`, in one line. */
export function usageOf({ name, usage, operands, flags, command }: CommandSpec): string {
  const shown = usage === undefined ? [...operands, ...flags.map((flag) => `[${flagWords(flag)}]`)] : [usage];
  const tail = command === "required" ? ["-- COMMAND …"] : command === "optional" ? ["[-- COMMAND …]"] : [];
  return ["usage: holdfast", name, ...shown, ...tail].join(" ");
}

/** `--on-lost kill|warn`. */
export function flagWords({ name, value, isValueOptional }: Flag): string {
  return value === undefined ? name : `${name} ${isValueOptional ? `[${value}]` : value}`;
}
