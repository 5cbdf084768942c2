import { type CommandSpec, flagWords, usageOf } from "../args/spec.ts";
import { CLIENT_COMMANDS, SERVER_COMMANDS } from "./table.ts";

const COLUMNS = 80;

/** `holdfast --help`: fits a screen of 24 lines and 80 columns. */
export function overview(version: string): string {
  const rows = [...CLIENT_COMMANDS, ...SERVER_COMMANDS].map(({ name, summary }) => `  ${name.padEnd(11)} ${summary}`);
  return [
    `holdfast ${version}: distributed locks and semaphores`,
    "usage: holdfast COMMAND …    holdfast COMMAND --help: flags and examples",
    "",
    ...rows,
    "",
    "The server: --url or HOLDFAST_URL, default http://127.0.0.1:6389",
    "Its token:  --token-file, --token or HOLDFAST_TOKEN",
    "",
  ].join("\n");
}

/** `holdfast run --help`. */
export function helpOf(spec: CommandSpec): string {
  const width = Math.max(...spec.flags.map((flag) => flagHead(flag).length));
  const flags = spec.flags.map((flag) => `  ${flagHead(flag).padEnd(width)}  ${flag.help}`);
  const examples = spec.examples.flatMap(([line, meaning]) => [`  holdfast ${line}`, `      ${meaning}`]);
  return [wrapped(usageOf(spec)), "", spec.about, "", ...flags, "", "Examples:", ...examples, ""].join("\n");
}

function flagHead(flag: CommandSpec["flags"][number]): string {
  return flag.short ? `${flag.short}, ${flagWords(flag)}` : flagWords(flag);
}

/** Breaks a usage line between its parts. */
function wrapped(usage: string): string {
  const parts = usage.match(/\[[^\]]+\]|\S+/g) ?? [];
  const lines: string[] = [];
  for (const part of parts) {
    const last = lines.at(-1);
    if (last !== undefined && `${last} ${part}`.length <= COLUMNS) lines[lines.length - 1] = `${last} ${part}`;
    else lines.push(lines.length === 0 ? part : `         ${part}`);
  }
  return lines.join("\n");
}
