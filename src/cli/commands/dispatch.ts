import { HELP, JSON_OUTPUT, QUIET } from "../args/flags.ts";
import { parseArguments } from "../args/parse.ts";
import { usageOf } from "../args/spec.ts";
import { CommandError, Interrupted, UsageError } from "../output/errors.ts";
import { type OutputMode, Printer } from "../output/printer.ts";
import { CLIENT_COMMANDS, type ClientCommand } from "./table.ts";

/** The client command with this name; undefined for server commands and unknown ones. */
export function clientCommand(name: string): ClientCommand | undefined {
  return CLIENT_COMMANDS.find((each) => each.name === name);
}

/** Runs a command. Resolves with the exit code; any error is printed as one line. */
export async function runClientCommand(command: ClientCommand, words: readonly string[]): Promise<number> {
  const own = words.includes("--") ? words.slice(0, words.indexOf("--")) : words;
  if (own.includes(HELP.name) || own.includes(HELP.short)) {
    const { helpOf } = await import("./help.ts");
    process.stdout.write(helpOf(command));
    return 0;
  }
  try {
    const args = parseArguments(command, words);
    const { main } = await command.load();
    return await main(args);
  } catch (error) {
    return complain(error, command, new Printer(outputMode(own)));
  }
}

/** Decided by the raw words, so that a command line that cannot be parsed is still answered in the requested format. */
function outputMode(words: readonly string[]): OutputMode {
  if (words.some((word) => word === QUIET.name || word === QUIET.short)) return "quiet";
  return words.includes(JSON_OUTPUT.name) ? "json" : "text";
}

function complain(error: unknown, command: ClientCommand, printer: Printer): number {
  if (error instanceof Interrupted) return error.exitCode;
  const known = asCommandError(error);
  printer.failure(known, known.code === "usage" ? usageOf(command) : undefined);
  return known.exitCode;
}

function asCommandError(error: unknown): CommandError {
  if (error instanceof CommandError) return error;
  const { name, message, exitCode } = error as Partial<Error> & { exitCode?: unknown };
  // Thrown by code shared with the server's commands, such as reading secrets from files.
  if (name === "Failure" && exitCode === 2) return new UsageError(message ?? "");
  return new CommandError("internal", `internal error: ${String(message ?? error).split("\n", 1)[0]}`);
}
