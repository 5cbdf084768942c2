import { runCommand } from "../args/run-command.ts";
import type { Command } from "../args/spec.ts";
import { printable } from "../output/printable.ts";
import { write } from "../output/printer.ts";
import { CLIENT_COMMANDS } from "./table.ts";

/** Runs `holdfast NAME WORDS…`. Resolves with the exit code. */
export async function dispatch(name: string, words: readonly string[]): Promise<number> {
  const command = await commandNamed(name);
  if (command) return runCommand(command, words);
  if (/^(-h|--help|-V|--version)$/.test(name)) {
    const { overview, version } = await import("./overview.ts");
    write(1, [name === "-h" || name === "--help" ? overview() : version()]);
    return 0;
  }
  // The value in `--auth-token=secret` must not end up in a log.
  const [word = ""] = name.split("=", 1);
  const problem = word === "" ? "no command given" : `unknown ${word.startsWith("-") ? "flag" : "command"} ${word}`;
  write(2, [`holdfast: ${printable(problem)}; see holdfast --help`]);
  return 2;
}

async function commandNamed(name: string): Promise<Command | undefined> {
  const isNamed = (command: Command) => command.name === name;
  const known = CLIENT_COMMANDS.find(isNamed);
  if (known || name.startsWith("-")) return known;
  const { SERVER_COMMANDS } = await import("./server.ts");
  return SERVER_COMMANDS.find(isNamed);
}
