/** Bar charts as SVG, readable on light and on dark pages. */
export interface Bar {
  readonly label: string;
  readonly value: number;
  /** The value in words. */
  readonly text: string;
  /** Drawn in the accent colour. */
  readonly isOurs: boolean;
}

export interface Group {
  readonly title: string;
  readonly bars: readonly Bar[];
}

const WIDTH = 760;
const LABELS = 190;
const VALUES = 160;
const BAR = 18;
const GAP = 6;
const GROUP_HEAD = 30;
const TITLE = 34;
const FONT = "system-ui, -apple-system, 'Segoe UI', sans-serif";

const STYLE = `
    text { font-family: ${FONT}; font-size: 13px; fill: #1f2328; }
    .title { font-size: 15px; font-weight: 600; }
    .group { font-weight: 600; }
    .value { fill: #59636e; }
    .ours { fill: #0969da; }
    .theirs { fill: #afb8c1; }
    @media (prefers-color-scheme: dark) {
      text { fill: #e6edf3; }
      .value { fill: #9198a1; }
      .ours { fill: #4493f8; }
      .theirs { fill: #656c76; }
    }
  `;

/** One bar per line; all bars have the same scale, which begins at 0. */
export function barChart(title: string, groups: readonly Group[]): string {
  const most = Math.max(...groups.flatMap(({ bars }) => bars.map(({ value }) => value)).filter(Number.isFinite), 0);
  const lines: string[] = [];
  let y = TITLE;
  for (const group of groups) {
    lines.push(`<text class="group" x="0" y="${y + 18}">${escaped(group.title)}</text>`);
    y += GROUP_HEAD;
    for (const bar of group.bars) {
      lines.push(barLine(bar, y, most));
      y += BAR + GAP;
    }
    y += GAP;
  }
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${y}" width="${WIDTH}" height="${y}" role="img">`,
    `  <title>${escaped(title)}</title>`,
    `  <style>${STYLE}</style>`,
    `  <text class="title" x="0" y="18">${escaped(title)}</text>`,
    ...lines.map((line) => `  ${line}`),
    "</svg>",
    "",
  ].join("\n");
}

function barLine({ label, value, text, isOurs }: Bar, y: number, most: number): string {
  const share = most > 0 && Number.isFinite(value) ? value / most : 0;
  const width = Math.max(1, Math.round(share * (WIDTH - LABELS - VALUES) * 10) / 10);
  const baseline = y + BAR - 5;
  return (
    `<text x="0" y="${baseline}">${escaped(label)}</text>` +
    `<rect class="${isOurs ? "ours" : "theirs"}" x="${LABELS}" y="${y}" width="${width}" height="${BAR}" rx="2"/>` +
    `<text class="value" x="${LABELS + width + 8}" y="${baseline}">${escaped(text)}</text>`
  );
}

const ENTITIES: Readonly<Record<string, string>> = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" };

function escaped(text: string): string {
  return text.replace(/[&<>"]/g, (character) => ENTITIES[character] ?? character);
}
