/** A flag of a command. */
export interface Flag {
  readonly name: `--${string}`;
  readonly short?: `-${string}`;
  /** Placeholder for its value in the help. A flag without one is a switch. */
  readonly value?: string;
  /** The accepted values, if they can be listed. */
  readonly choices?: readonly string[];
  readonly help: string;
}

/** The command line of one command. Help, parser, completion and documentation are generated from it. */
export interface CommandSpec {
  readonly name: string;
  /** One line of `holdfast --help`. */
  readonly summary: string;
  /** What it does, in a few sentences. */
  readonly about: string;
  /** Names of its operands, in order: `KEY`, `[PREFIX]` if optional, `KEY…` for one or more. */
  readonly operands: readonly string[];
  /** Whether a command to run may or must follow `--`. */
  readonly command?: "optional" | "required";
  readonly flags: readonly Flag[];
  /** Command lines, without `holdfast`, and what they do. */
  readonly examples: readonly (readonly [line: string, meaning: string])[];
}

const isOptional = (operand: string) => operand.startsWith("[");
const isRepeated = (operand: string) => operand.endsWith("…");

/** How many operands a command takes. */
export function operandCounts({ operands }: CommandSpec): { readonly min: number; readonly max: number } {
  return {
    min: operands.filter((each) => !isOptional(each)).length,
    max: operands.some(isRepeated) ? Number.POSITIVE_INFINITY : operands.length,
  };
}

/** `usage: holdfast lock KEY [--limit N] … [-- COMMAND …]`, in one line. */
export function usageOf({ name, operands, flags, command }: CommandSpec): string {
  const shown = flags.map((flag) => `[${flagWords(flag)}]`);
  const tail = command === "required" ? ["-- COMMAND …"] : command === "optional" ? ["[-- COMMAND …]"] : [];
  return ["usage: holdfast", name, ...operands, ...shown, ...tail].join(" ");
}

/** `--on-lost kill|warn`. */
export function flagWords({ name, value, choices }: Flag): string {
  const shown = choices?.join("|") ?? value;
  return shown === undefined ? name : `${name} ${shown}`;
}
