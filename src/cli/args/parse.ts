import { UsageError } from "../output/errors.ts";
import { type CommandSpec, type Flag, operandCounts } from "./spec.ts";

/** A command line that follows the rules of its command. Values of flags are still text. */
export class Arguments {
  readonly operands: readonly string[];
  /** What follows `--`, for commands that run another command. */
  readonly command: readonly string[];
  readonly #values: ReadonlyMap<string, string>;

  constructor(operands: readonly string[], command: readonly string[], values: ReadonlyMap<string, string>) {
    this.operands = operands;
    this.command = command;
    this.#values = values;
  }

  has(flag: Flag): boolean {
    return this.#values.has(flag.name);
  }

  /** The value of a flag as typed; the last one if it was given more than once. */
  text(flag: Flag): string | undefined {
    return this.#values.get(flag.name);
  }
}

/**
 * Parses the words after the name of the command. Flags may come before or after operands, `--flag=value` equals
 * `--flag value`, `--` ends the flags, and of a repeated flag the last one counts. Throws a `UsageError`, which never
 * shows a value.
 */
export function parseArguments(spec: CommandSpec, words: readonly string[]): Arguments {
  const values = new Map<string, string>();
  const operands: string[] = [];
  let command: readonly string[] = [];
  for (let index = 0; index < words.length; index += 1) {
    const word = words[index] ?? "";
    if (word === "--") {
      const rest = words.slice(index + 1);
      if (spec.command) command = rest;
      else operands.push(...rest);
      break;
    }
    if (!word.startsWith("-") || word === "-") {
      operands.push(word);
      continue;
    }
    const [name = "", inline] = splitAtEquals(word);
    const flag = spec.flags.find((each) => each.name === name || each.short === name);
    if (!flag) throw new UsageError(`unknown option ${name}`);
    if (flag.value === undefined) {
      if (inline !== undefined) throw new UsageError(`${name} takes no value`);
      values.set(flag.name, "");
      continue;
    }
    const value = inline ?? words[index + 1];
    if (value === undefined || (inline === undefined && value === "--")) throw new UsageError(`${name} needs a value`);
    if (inline === undefined) index += 1;
    if (flag.choices && !flag.choices.includes(value)) {
      throw new UsageError(`${name} must be ${flag.choices.join(" or ")}, not ${JSON.stringify(value.slice(0, 64))}`);
    }
    values.set(flag.name, value);
  }
  checkOperands(spec, operands);
  if (spec.command === "required" && command.length === 0) {
    throw new UsageError("the command to run is missing: put it behind --");
  }
  return new Arguments(operands, command, values);
}

function splitAtEquals(word: string): [string, string | undefined] {
  const at = word.indexOf("=");
  return at < 0 ? [word, undefined] : [word.slice(0, at), word.slice(at + 1)];
}

function checkOperands(spec: CommandSpec, operands: readonly string[]): void {
  const { min, max } = operandCounts(spec);
  const missing = spec.operands[operands.length];
  if (operands.length < min) throw new UsageError(`${missing} is missing`);
  if (operands.length > max) {
    const hint = spec.command ? ": put -- before the command" : "";
    throw new UsageError(`too many arguments, beginning with ${JSON.stringify(operands[max])}${hint}`);
  }
}
