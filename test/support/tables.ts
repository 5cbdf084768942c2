/** The cells of the rows of the table that begins with this header. */
export function tableUnder(header: string, markdown: string): string[][] {
  const [, rows = ""] = markdown.split(`${header}\n`)[1]?.match(/^\|[-|]+\|\n((?:\|.*\n)+)/) ?? [];
  const lines = rows.trimEnd().split("\n");
  return lines.map((line) =>
    line
      .slice(1, -1)
      .split("|")
      .map((cell) => cell.trim()),
  );
}
