import { helpOf } from "../args/help.ts";
import { suggestion } from "../args/nearest.ts";
import { runCommand } from "../args/run-command.ts";
import type { Command, CommandSpec } from "../args/spec.ts";
import { printable } from "../output/printable.ts";
import { write } from "../output/printer.ts";
import { CLIENT_COMMANDS } from "./table.ts";

/** Runs `holdfast NAME WORDS…`. Resolves with the exit code. */
export async function dispatch(name: string, words: readonly string[]): Promise<number> {
  const command = await commandNamed(name);
  if (command) return runCommand(command, words);
  if (/^(-v|-V|--version|version)$/.test(name)) {
    const { version } = await import("./overview.ts");
    write(1, [version()]);
    return 0;
  }
  if (/^(-h|--help|help)$/.test(name)) return help(name === "help" ? words.filter((word) => !isFlag(word)) : []);
  return unknown(name);
}

/** `holdfast help`, `holdfast help run` and `holdfast help file try`. */
async function help(words: readonly string[]): Promise<number> {
  const { ALL_COMMANDS, overview } = await import("./overview.ts");
  const { FILE_COMMANDS } = await import("../file/table.ts");
  const name = words.join(" ");
  const named = [...ALL_COMMANDS, ...FILE_COMMANDS].find((command: CommandSpec) => command.name === name);
  if (name !== "" && !named) return unknown(name);
  write(1, [named ? helpOf(named) : overview()]);
  return 0;
}

async function unknown(name: string): Promise<number> {
  // The value in `--auth-token=secret` must not end up in a log.
  const [word = ""] = name.split("=", 1);
  const { ALL_COMMANDS } = await import("./overview.ts");
  const names = isFlag(word)
    ? ["--help", "--version"]
    : [...ALL_COMMANDS.map((command) => command.name), "help", "version"];
  const problem =
    word === ""
      ? "no command given"
      : `unknown ${isFlag(word) ? "flag" : "command"} ${printable(word)}${suggestion(word, names)}`;
  write(2, [`holdfast: ${problem}; see holdfast --help`]);
  return 2;
}

const isFlag = (word: string) => word.startsWith("-");

async function commandNamed(name: string): Promise<Command | undefined> {
  const isNamed = (command: Command) => command.name === name;
  const known = CLIENT_COMMANDS.find(isNamed);
  if (known || isFlag(name)) return known;
  const { SERVER_COMMANDS } = await import("./server.ts");
  return SERVER_COMMANDS.find(isNamed);
}
