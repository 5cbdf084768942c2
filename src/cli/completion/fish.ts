import { type CompletedCommand, wantsFile } from "./words.ts";

/** One `complete` for each command, operand and flag. */
export function fishScript(commands: readonly CompletedCommand[]): string {
  const first = commands.map(
    ({ name, summary }) => `complete -c holdfast -n __fish_use_subcommand -a ${name} -d ${quoted(summary)}`,
  );
  return [
    "# Completion of holdfast for fish: holdfast completion fish > ~/.config/fish/completions/holdfast.fish",
    // Not `__fish_seen_subcommand_from`: `holdfast run -- ls` has two words that are commands.
    "function __holdfast_command",
    "    set -l words (commandline -opc)",
    '    test "$words[2]" = $argv[1]',
    "end",
    "complete -c holdfast -f",
    "complete -c holdfast -n __fish_use_subcommand -l help -d 'print the help'",
    "complete -c holdfast -n __fish_use_subcommand -l version -d 'print the version'",
    ...first,
    ...commands.flatMap(linesOf),
    "",
  ].join("\n");
}

function linesOf({ name, flags, operands, takesPath }: CompletedCommand): string[] {
  const start = `complete -c holdfast -n '__holdfast_command ${name}'`;
  return [
    ...operands.map((operand) => `${start} -a ${operand}`),
    ...(takesPath ? [`${start} -F`] : []),
    ...flags.map((flag) => {
      const { name: long, short, value, choices, help = "" } = flag;
      const parts = [start, `-l ${long.slice(2)}`];
      if (short) parts.push(`-s ${short.slice(1)}`);
      if (choices) parts.push(`-x -a ${quoted(choices.join(" "))}`);
      else if (wantsFile(flag)) parts.push("-r -F");
      else if (value !== undefined) parts.push("-x");
      return [...parts, `-d ${quoted(help)}`].join(" ");
    }),
  ];
}

function quoted(text: string): string {
  return `'${text.replaceAll("\\", "\\\\").replaceAll("'", "\\'")}'`;
}
