import type uPlot from "uplot";
import { nameOf } from "../shared/words.ts";
import type { Outcome } from "./history.ts";
import type { Bar } from "./timeline.ts";

const COLOURS = {
  accent: "--accent",
  accentGround: "--accent-ground",
  onAccent: "--on-accent",
  waiting: "--waiting",
  danger: "--danger",
  onDanger: "--on-danger",
  faint: "--faint",
  line: "--line",
  panel: "--panel",
  text: "--text",
} as const;

export type Colours = Readonly<Record<keyof typeof COLOURS, string>>;

/** The page's current colours, light or dark: a canvas cannot use CSS variables. */
export function coloursIn(element: HTMLElement): Colours {
  const probe = element.appendChild(document.createElement("i"));
  const read = (name: string) => {
    probe.style.color = `var(${name})`;
    return getComputedStyle(probe).color;
  };
  const colours = Object.fromEntries(Object.entries(COLOURS).map(([colour, name]) => [colour, read(name)]));
  probe.remove();
  return colours as Record<keyof typeof COLOURS, string>;
}

interface Paint {
  readonly fill: keyof Colours;
  readonly edge: keyof Colours;
  readonly text: keyof Colours;
  readonly isHatched?: true;
}

/** `key.css` draws the legend likewise. */
const PAINT: Readonly<Record<Outcome, Paint>> = {
  held: { fill: "accent", edge: "accent", text: "onAccent" },
  released: { fill: "accentGround", edge: "accent", text: "text" },
  expired: { fill: "danger", edge: "danger", text: "onDanger" },
  lost: { fill: "panel", edge: "faint", text: "text", isHatched: true },
};

/** Where a bar is on the canvas. */
interface Box {
  readonly x: number;
  readonly y: number;
  readonly width: number;
  readonly height: number;
}

/** Draws a wait as a thin line and the hold behind it as a bar, with a name in it if there is room. */
export function paintBar(plot: uPlot, bar: Bar, colours: Colours): void {
  const { ctx, bbox } = plot;
  const ratio = devicePixelRatio;
  const within = (seconds: number) =>
    Math.max(bbox.left, Math.min(bbox.left + bbox.width, plot.valToPos(seconds, "x", true)));
  const top = plot.valToPos(bar.lane, "y", true);
  const bottom = plot.valToPos(bar.lane + 1, "y", true);
  const gap = Math.max(ratio, (bottom - top) * 0.14);
  const box = { x: within(bar.from), y: top + gap, width: 0, height: bottom - top - 2 * gap };
  paintWait(ctx, { ...box, x: within(bar.waitedFrom), width: box.x - within(bar.waitedFrom) }, colours);
  paintHold(ctx, { ...box, width: Math.max(2 * ratio, within(bar.to) - box.x - ratio) }, bar, colours);
}

function paintWait(ctx: CanvasRenderingContext2D, { x, y, width, height }: Box, colours: Colours): void {
  if (width < 1) return;
  const thickness = Math.max(2, height * 0.18);
  ctx.fillStyle = colours.waiting;
  ctx.fillRect(x, y + (height - thickness) / 2, width, thickness);
  ctx.fillRect(x, y + height * 0.2, Math.min(width, 2 * devicePixelRatio), height * 0.6);
}

function paintHold(ctx: CanvasRenderingContext2D, box: Box, bar: Bar, colours: Colours): void {
  const { x, y, width, height } = box;
  const paint = PAINT[bar.outcome];
  ctx.save();
  ctx.beginPath();
  ctx.roundRect(x, y, width, height, Math.min(3 * devicePixelRatio, width / 2));
  ctx.fillStyle = colours[paint.fill];
  ctx.fill();
  ctx.lineWidth = devicePixelRatio;
  ctx.strokeStyle = colours[paint.edge];
  ctx.stroke();
  ctx.clip();
  if (paint.isHatched) hatch(ctx, box, colours.faint);
  paintName(ctx, box, nameOf(bar.grant), colours[paint.text], paint.isHatched ? colours.panel : undefined);
  ctx.restore();
}

function hatch(ctx: CanvasRenderingContext2D, { x, y, width, height }: Box, colour: string): void {
  const step = 6 * devicePixelRatio;
  ctx.beginPath();
  for (let at = x - height; at < x + width; at += step) {
    ctx.moveTo(at, y + height);
    ctx.lineTo(at + height, y);
  }
  ctx.strokeStyle = colour;
  ctx.stroke();
}

function paintName(ctx: CanvasRenderingContext2D, box: Box, name: string, colour: string, ground?: string): void {
  const ratio = devicePixelRatio;
  const padding = 6 * ratio;
  if (box.height < 12 * ratio) return;
  ctx.font = `${11 * ratio}px system-ui, sans-serif`;
  const width = ctx.measureText(name).width;
  if (width + 2 * padding > box.width) return;
  const left = box.x + padding;
  if (ground !== undefined) {
    ctx.fillStyle = ground;
    ctx.fillRect(left - padding / 2, box.y + 2, width + padding, box.height - 4);
  }
  ctx.fillStyle = colour;
  ctx.textAlign = "left";
  ctx.textBaseline = "middle";
  ctx.fillText(name, left, box.y + box.height / 2 + ratio / 2);
}
