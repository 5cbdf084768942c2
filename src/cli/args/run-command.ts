import { Failure, reasonOf } from "../../node/listeners/failure.ts";
import { CommandError, Interrupted, UsageError } from "../output/errors.ts";
import { printable } from "../output/printable.ts";
import { Printer, write } from "../output/printer.ts";
import { HELP } from "./flags.ts";
import { helpOf } from "./help.ts";
import { parseArguments } from "./parse.ts";
import { type Command, usageOf } from "./spec.ts";

/** Runs a command with the words after its name. Resolves with the exit code; errors are printed. */
export async function runCommand(command: Command, words: readonly string[]): Promise<number> {
  const args = parseArguments(command, words);
  if (args.has(HELP)) {
    write(1, [helpOf(command)]);
    return 0;
  }
  try {
    if (args.problem !== undefined) throw new UsageError(args.problem);
    const { main } = await command.load();
    return await main(args);
  } catch (error) {
    return complain(error, command, new Printer(args.output));
  }
}

function complain(error: unknown, command: Command, printer: Printer): number {
  if (error instanceof Interrupted) return error.exitCode;
  if (error instanceof UsageError) {
    printer.complaint({ error: error.code, message: error.message }, usageLines(command, printable(error.message)));
    return error.exitCode;
  }
  const known = asCommandError(error);
  printer.failure(known);
  return error instanceof Failure ? error.exitCode : known.exitCode;
}

function asCommandError(error: unknown): CommandError {
  if (error instanceof CommandError) return error;
  if (error instanceof Failure) return new CommandError(error.exitCode === 2 ? "usage" : "unavailable", error.message);
  return new CommandError("internal", `internal error: ${reasonOf(error)}`);
}

function usageLines(command: Command, message: string): string[] {
  // The lock-file protocol wants one line.
  if (command.name.startsWith("file")) return [`${usageOf(command)} (${message})`];
  if (command.usage) return [`holdfast: ${message}; see holdfast ${command.name} --help`];
  return [`holdfast: ${message}`, usageOf(command)];
}
