import { type CommandSpec, type Flag, flagWords, usageOf } from "./spec.ts";

const COLUMNS = 80;

/** `holdfast run --help`, no wider than 80 columns. */
export function helpOf(spec: CommandSpec): string {
  const rows = spec.flags.flatMap((flag) => (flag.help === undefined ? [] : [[flagHead(flag), flag.help] as const]));
  const width = Math.max(...rows.map(([head]) => head.length)) + 4;
  const flags = rows.map(([head, help]) => hanging(`  ${head}`.padEnd(width), help.split(" "), width));
  const examples = spec.examples.map(([line, meaning]) => `\n  holdfast ${line}\n      ${meaning}`).join("");
  const [command = "", ...parts] = usageOf(spec).match(/usage: holdfast \S+|\[[^\]]+\]|-- COMMAND …|\S+/g) ?? [];
  const paragraphs = [
    hanging(`${command} `, parts, 9),
    spec.about,
    flags.join("\n"),
    examples && `Examples:${examples}`,
  ];
  return paragraphs.filter((text) => text !== "").join("\n\n");
}

function flagHead(flag: Flag): string {
  return flag.short ? `${flag.short}, ${flagWords(flag)}` : flagWords(flag);
}

/** The parts after the head, as many per line as fit, with the following lines indented. */
function hanging(head: string, parts: readonly string[], indent: number): string {
  const lines: string[] = [];
  let line = head;
  for (const part of parts) {
    const next = line.endsWith(" ") ? `${line}${part}` : `${line} ${part}`;
    if (next.length <= COLUMNS || line.trim() === "") line = next;
    else {
      lines.push(line);
      line = " ".repeat(indent) + part;
    }
  }
  return [...lines, line].join("\n");
}
