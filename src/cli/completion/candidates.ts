import { type CompletedCommand, wantsFile } from "./words.ts";

/**
 * A function for any POSIX shell that prints the candidates: `_holdfast_words COMMAND PREVIOUS` with the command (""
 * before there is one) and the word before the one being typed. `@files` means file names, `@any` means anything.
 */
export function candidatesFunction(commands: readonly CompletedCommand[]): string {
  const names = commands.map(({ name }) => name).join(" ");
  return [
    "_holdfast_words() {",
    '  case "$1" in',
    `    "") echo "${names} --help --version" ;;`,
    ...commands.flatMap(branchOf),
    "  esac",
    "}",
  ].join("\n");
}

function branchOf({ name, flags, operands, takesPath }: CompletedCommand): string[] {
  const valued = flags.filter(({ value }) => value !== undefined);
  const listed = valued.filter(({ choices }) => choices !== undefined);
  const files = valued.filter(wantsFile);
  const others = valued.filter((flag) => !listed.includes(flag) && !files.includes(flag));
  const pattern = (some: typeof flags) => some.map((flag) => flag.name).join("|");
  const words = [...operands, ...flags.flatMap((flag) => (flag.short ? [flag.name, flag.short] : [flag.name]))];
  return [
    `    ${name})`,
    '      case "$2" in',
    ...listed.map((flag) => `        ${flag.name}) echo "${flag.choices?.join(" ")}" ;;`),
    ...(takesPath ? [`        ${operands.join("|")}) echo "@files" ;;`] : []),
    ...(files.length > 0 ? [`        ${pattern(files)}) echo "@files" ;;`] : []),
    ...(others.length > 0 ? [`        ${pattern(others)}) echo "@any" ;;`] : []),
    `        *) echo "${words.join(" ")}" ;;`,
    "      esac ;;",
  ];
}
