import { runCommand } from "../args/run-command.ts";
import { FILE_COMMANDS, FILE_OVERVIEW } from "./table.ts";

/** Runs `holdfast file WORDS…`. Resolves with the exit code. */
export function runFile(words: readonly string[]): Promise<number> {
  const command = FILE_COMMANDS.find(({ name }) => name === `file ${words[0]}`);
  return command ? runCommand(command, words.slice(1)) : runCommand(FILE_OVERVIEW, words);
}
