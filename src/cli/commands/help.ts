import { type CommandSpec, flagWords, usageOf } from "../args/spec.ts";
import { CLIENT_COMMANDS, OTHER_COMMANDS } from "./table.ts";

const COLUMNS = 80;

/** `holdfast --help`: fits a screen of 24 lines and 80 columns. */
export function overview(version: string): string {
  const rows = [...CLIENT_COMMANDS, ...OTHER_COMMANDS].map(({ name, summary }) => `  ${name.padEnd(11)} ${summary}`);
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

/** `holdfast run --help`, no wider than 80 columns. */
export function helpOf(spec: CommandSpec): string {
  const width = Math.max(...spec.flags.map((flag) => flagHead(flag).length)) + 4;
  const flags = spec.flags.map((flag) => hanging(`  ${flagHead(flag)}`.padEnd(width), flag.help.split(" "), width));
  const examples = spec.examples.flatMap(([line, meaning]) => [`  holdfast ${line}`, `      ${meaning}`]);
  const [command = "", ...parts] = usageOf(spec).match(/usage: holdfast \S+|\[[^\]]+\]|-- COMMAND …|\S+/g) ?? [];
  const about = hanging("", spec.about.split(/\s+/), 0);
  return [hanging(`${command} `, parts, 9), "", about, "", ...flags, "", "Examples:", ...examples, ""].join("\n");
}

function flagHead(flag: CommandSpec["flags"][number]): string {
  return flag.short ? `${flag.short}, ${flagWords(flag)}` : flagWords(flag);
}

/** The parts after the head, as many per line as fit, with the following lines indented. */
function hanging(head: string, parts: readonly string[], indent: number): string {
  const lines: string[] = [];
  let line = head;
  for (const part of parts) {
    const next = line.endsWith(" ") || line === "" ? `${line}${part}` : `${line} ${part}`;
    if (next.length <= COLUMNS || line.trim() === "") line = next;
    else {
      lines.push(line);
      line = " ".repeat(indent) + part;
    }
  }
  return [...lines, line].join("\n");
}
