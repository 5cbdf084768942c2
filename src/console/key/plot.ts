import type uPlot from "uplot";
import { clockTime } from "./clock-time.ts";
import { type Colours, coloursIn, paintBar } from "./paint.ts";
import type { Timeline } from "./timeline.ts";

const AXIS_PX = 28;
const LANE_PX = 28;
const MAX_PX = 280;

type Plotter = typeof uPlot;

/**
 * Chromium under LANG=C reports its language as `en-US@posix`, which Intl refuses (153, 2026-11). uPlot calls Intl while it
 * loads, so the language is corrected first.
 */
export async function loadPlotter(): Promise<Plotter> {
  try {
    new Intl.NumberFormat(navigator.language);
  } catch {
    Object.defineProperty(navigator, "language", { value: "en-US" });
  }
  return (await import("uplot")).default;
}

/** The timeline on a canvas. Follows the width of its element and the colours of the page. */
export class TimelinePlot {
  readonly #element: HTMLElement;
  readonly #looks = ["(prefers-color-scheme: dark)", "(forced-colors: active)"].map((query) => matchMedia(query));
  readonly #resized = new ResizeObserver(() => this.#fit());
  readonly #plot: uPlot;
  #colours: Colours;
  #timeline: Timeline;

  constructor(Plotter: Plotter, element: HTMLElement, timeline: Timeline) {
    this.#element = element;
    this.#timeline = timeline;
    this.#colours = coloursIn(element);
    this.#plot = new Plotter(this.#options(), dataOf(timeline), element);
    this.#resized.observe(element);
    for (const look of this.#looks) look.addEventListener("change", this.#recolour);
  }

  show(timeline: Timeline): void {
    const isSameHeight = timeline.lanes === this.#timeline.lanes;
    this.#timeline = timeline;
    this.#plot.setData(dataOf(timeline));
    if (!isSameHeight) this.#fit();
  }

  destroy(): void {
    this.#resized.disconnect();
    for (const look of this.#looks) look.removeEventListener("change", this.#recolour);
    this.#plot.destroy();
  }

  readonly #recolour = () => {
    this.#colours = coloursIn(this.#element);
    this.#plot.redraw(false, true);
  };

  #fit(): void {
    const size = this.#size();
    if (size.width !== this.#plot.width || size.height !== this.#plot.height) this.#plot.setSize(size);
  }

  #size(): { readonly width: number; readonly height: number } {
    const lanes = Math.min(MAX_PX, this.#timeline.lanes * LANE_PX);
    return { width: Math.max(160, this.#element.clientWidth), height: lanes + AXIS_PX };
  }

  #options(): uPlot.Options {
    return {
      ...this.#size(),
      padding: [0, 30, 0, 30],
      legend: { show: false },
      cursor: { show: false },
      scales: {
        x: { time: true, range: () => [this.#timeline.from, this.#timeline.to] },
        // The first lane is the uppermost.
        y: { range: () => [0, this.#timeline.lanes], dir: -1 },
      },
      series: [{}, { show: true, paths: () => null, points: { show: false } }],
      axes: [
        {
          size: AXIS_PX,
          font: "12px system-ui, sans-serif",
          stroke: () => this.#colours.faint,
          grid: { stroke: () => this.#colours.line, width: 1 },
          ticks: { show: false },
          values: (_plot, moments) => moments.map((seconds) => clockTime(seconds * 1000)),
        },
        { show: false },
      ],
      hooks: { draw: [() => this.#paint()] },
    };
  }

  #paint(): void {
    for (const bar of this.#timeline.bars) paintBar(this.#plot, bar, this.#colours);
  }
}

/** The plot only needs to know the span: the bars are painted by hand. */
function dataOf({ from, to }: Timeline): uPlot.AlignedData {
  return [
    [from, to],
    [null, null],
  ];
}
