import { parseArgs } from "node:util";
import type { OutputMode } from "../output/printer.ts";
import { HELP, JSON_OUTPUT, QUIET } from "./flags.ts";
import { suggestion } from "./nearest.ts";
import type { CommandSpec, Flag } from "./spec.ts";

/** A parsed command line. Values of flags are still text. */
export interface Arguments {
  readonly operands: readonly string[];
  /** What follows `--`, for commands that run another command. */
  readonly command: readonly string[];
  /** The flags by their long names. Of a repeated flag the last one counts; a switch is "true". */
  readonly values: Readonly<Record<string, string>>;
  /** What is wrong with the command line. Never shows a value, which may be a secret. */
  readonly problem: string | undefined;
  /** How results and errors are printed. */
  readonly output: OutputMode;
  has(flag: Flag): boolean;
  text(flag: Flag): string | undefined;
  /** All values of a flag that may be repeated, in the order given. */
  texts(flag: Flag): readonly string[];
}

/**
 * Parses the words after the name of the command. Flags may come before or after operands, `--flag=value` equals
 * `--flag value`, and `--` ends the flags. Never throws: `--help` and `--json` are answered even if the rest is wrong.
 */
export function parseArguments(spec: CommandSpec, words: readonly string[]): Arguments {
  const end = words.includes("--") ? words.indexOf("--") : words.length;
  const behind = words.slice(end + 1);
  const flags = [...spec.flags, HELP];
  const { tokens } = parseArgs({
    args: words.slice(0, end),
    options: Object.fromEntries(flags.map((flag) => [flag.name.slice(2), parserOption(flag)])),
    strict: false,
    tokens: true,
  });
  const values: Record<string, string> = {};
  const lists = new Map<Flag, string[]>();
  const operands: string[] = [];
  const problems: string[] = [];
  let previous: Flag | undefined;
  for (const token of tokens) {
    if (token.kind === "positional") {
      if (previous?.isValueOptional) values[previous.name] = token.value;
      else operands.push(token.value);
      previous = undefined;
    } else if (token.kind === "option") {
      const { rawName, value } = token;
      const flag = flags.find(({ name, short }) => name === rawName || short === rawName);
      const problem = problemWith(flag, rawName, value, flags);
      if (problem !== undefined) problems.push(problem);
      else if (flag) {
        values[flag.name] = value ?? "true";
        lists.set(flag, [...(lists.get(flag) ?? []), value ?? "true"]);
      }
      previous = value === undefined ? flag : undefined;
    }
  }
  if (!spec.command) operands.push(...behind);
  const command = spec.command ? behind : [];
  return {
    operands,
    command,
    values,
    problem: problems[0] ?? operandProblem(spec, operands, command),
    output: QUIET.name in values ? "quiet" : JSON_OUTPUT.name in values ? "json" : "text",
    has: ({ name }) => name in values,
    text: ({ name }) => values[name],
    texts: (flag) => lists.get(flag) ?? [],
  };
}

function parserOption({ value, isValueOptional, short }: Flag) {
  const type = value === undefined || isValueOptional ? "boolean" : "string";
  return { type, ...(short ? { short: short.slice(1) } : {}) } as const;
}

function problemWith(
  flag: Flag | undefined,
  rawName: string,
  value: string | undefined,
  known: readonly Flag[],
): string | undefined {
  if (!flag) {
    const names = known.map(({ name }) => name);
    return `unknown flag ${rawName}${suggestion(rawName, names)}`;
  }
  if (flag.value === undefined && value !== undefined) return `${rawName} takes no value`;
  if (flag.value !== undefined && !flag.isValueOptional && value === undefined) return `${rawName} needs a value`;
  return undefined;
}

function operandProblem(
  { operands: names, command: runs }: CommandSpec,
  operands: readonly string[],
  command: readonly string[],
): string | undefined {
  const missing = names[operands.length];
  const max = names.some((name) => name.endsWith("…")) ? Number.POSITIVE_INFINITY : names.length;
  if (missing !== undefined && !missing.startsWith("[")) return `${missing} is missing`;
  if (operands.length > max) {
    const hint = runs ? ": put -- before the command" : "";
    return `too many arguments, ${operands.length} instead of ${max}${hint}`;
  }
  if (runs === "required" && command.length === 0) return "the command to run is missing: put it behind --";
  return undefined;
}
