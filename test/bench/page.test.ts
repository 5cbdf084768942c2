import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { describe, expect, it } from "vitest";
import type { Result } from "../../bench/measure.ts";
import { barChart } from "../../bench/page/chart.ts";
import {
  benchmarksPage,
  chartsOf,
  type Findings,
  README_BEGIN,
  readmeFigures,
  withFigures,
} from "../../bench/page/text.ts";

const result = (cyclesPerSecond: number, more: Partial<Result> = {}): Result => ({
  cycles: cyclesPerSecond,
  seconds: 1,
  cyclesPerSecond,
  turns: [cyclesPerSecond, cyclesPerSecond],
  cycle: { p50: 1.5, p99: 20 },
  acquire: { p50: 1, p99: 10 },
  handOver: undefined,
  handOverTurns: [],
  cpuPerCycle: 0.5,
  clientsBusy: 0.1,
  ...more,
});

const measured = (more: Partial<Result> = {}) => [
  { label: "holdfast", isDurable: true, result: result(200, more) },
  { label: "etcd", isDurable: true, result: result(400, more) },
  { label: "Redis, default", isDurable: false, result: result(12_000, { ...more, clientsBusy: 0.99 }) },
];

const FINDINGS: Findings = {
  day: "2026-11-17",
  seconds: 3,
  rounds: 6,
  machine: {
    cores: 2,
    processor: "A Processor",
    memoryGb: 8,
    kernel: "Linux 6",
    fileSystem: "ext4",
    fsyncMs: 0.5,
    node: "24.0.0",
    workerd: "2026-11-04",
    holdfast: "0.1.0",
  },
  load: [0.2, 1.5],
  peers: [
    { name: "etcd", promise: "on disk", isDurable: true, version: "3.4.23" },
    { name: "Redis, default", promise: "in memory", isDurable: false, version: "7.0.15" },
    { name: "dflockd", promise: "in memory", isDurable: false, version: undefined },
  ],
  workloads: [
    { pattern: "own", clients: 1, title: "own key, 1 client", measured: measured() },
    { pattern: "own", clients: 50, title: "own keys, 50 clients", measured: measured() },
    {
      pattern: "hot",
      clients: 10,
      title: "one key, 10 clients",
      measured: measured({ handOver: { p50: 2.5, p99: 12, count: 100 } }),
    },
  ],
};

describe("the page", () => {
  const page = benchmarksPage(FINDINGS);

  it("names machine, disk, versions, and who was not installed", () => {
    expect(page).toContain("2 cores of A Processor, 8 GB, Linux 6, ext4, fsync 0.50 ms");
    expect(page).toContain("| etcd | 3.4.23 | on disk |");
    expect(page).toContain("| dflockd | **not installed**: not measured | in memory |");
    expect(page).not.toContain("do not rely");
  });

  it("has absolute figures and ratios, and says where the clients were the limit", () => {
    expect(page).toContain("| **holdfast** | 200 | 1 | 1.50 | 20.0 | 0.50 |");
    expect(page).toContain("| etcd | 400 | 2.00 (2.00-2.00) | 1.50 | 20.0 | 0.50 |");
    expect(page).toContain("| Redis, default | ≥ 12,000 | 60.00 (60.00-60.00) |");
    expect(page).toContain("| **holdfast** | 200 | 1 | 1.50 | 20.0 | 2.50 | 12.0 | 0.50 |");
  });

  it("says when other work was running", () => {
    expect(benchmarksPage({ ...FINDINGS, load: [1.5, 2] })).toContain("do not rely on these figures");
    expect(readmeFigures({ ...FINDINGS, load: [1.5, 2] })).toContain("Other work was running there (load 1.5)");
  });

  it("leaves out a ratio to nothing", () => {
    const none = [{ label: "holdfast", isDurable: true, result: result(0) }, ...measured().slice(1)];
    const text = benchmarksPage({
      ...FINDINGS,
      workloads: [{ pattern: "own", clients: 1, title: "own key, 1 client", measured: none }],
    });
    expect(text).toContain("| etcd | 400 | | 1.50 |");
    expect(text).not.toMatch(/NaN|Infinity/);
  });

  it("shows each of its charts", () => {
    for (const { file } of chartsOf(FINDINGS)) expect(page).toContain(`](${file})`);
  });
});

describe("charts", () => {
  it("draw only those side by side whose grants are on disk", () => {
    const [cycles] = chartsOf(FINDINGS);
    expect(cycles?.svg).toContain(">etcd<");
    expect(cycles?.svg).not.toContain("Redis, default");
  });

  it("have bars in proportion, from nothing, and colours for light and dark", () => {
    const bar = (value: number) => ({ label: `a<b & ${value}`, value, text: String(value), isOurs: value === 100 });
    const svg = barChart("x > y", [{ title: "g", bars: [bar(100), bar(25), bar(Number.NaN)] }]);
    const widths = [...svg.matchAll(/<rect class="(\w+)" x="190" y="\d+" width="([\d.]+)"/g)];
    expect(widths.map(([, kind, width]) => [kind, Number(width)])).toEqual([
      ["ours", 410],
      ["theirs", 102.5],
      ["theirs", 1],
    ]);
    expect(svg).toContain("prefers-color-scheme: dark");
    expect(svg).toContain("a&lt;b &amp; 100");
    expect(svg).toContain("<title>x &gt; y</title>");
    expect(svg).not.toContain("NaN</rect");
  });

  it("without any bar is still a picture", () => {
    expect(barChart("nothing", [])).toMatch(/^<svg .*viewBox="0 0 760 34"/);
  });
});

describe("the README", () => {
  it("gets its figures replaced, and nothing else", () => {
    const figures = readmeFigures(FINDINGS);
    const readme = `before\n${figures.replace("200 (1.50 ms)", "1 (9 ms)")}\nafter\n`;
    expect(withFigures(readme, figures)).toBe(`before\n${figures}\nafter\n`);
    expect(figures).toContain("| holdfast | on disk | 200 (1.50 ms) | 200 | 2.50 ms |");
    expect(figures).toContain("| Redis, default | in memory | ≥ 12,000 (1.50 ms) | ≥ 12,000 | 2.50 ms |");
    expect(figures).toContain("Not installed there, so not measured: dflockd.");
    expect(() => withFigures("no place", figures)).toThrow("no place for the figures");
  });

  it("in the repository quotes the page in the repository", () => {
    const text = (path: string) => readFileSync(fileURLToPath(new URL(`../../${path}`, import.meta.url)), "utf8");
    const [readme, page] = [text("README.md"), text("docs/benchmarks.md")];
    const from = readme.indexOf(README_BEGIN);
    const rows = readme
      .slice(from, readme.indexOf("<!-- /benchmarks -->"))
      .split("\n")
      .filter((line) => /^\| [a-zA-Z]/.test(line));
    expect(rows.length).toBeGreaterThan(0);
    for (const row of rows) {
      const [, name = "", , first = "", many = ""] = row.split("|").map((cell) => cell.trim());
      const lines = page.split("\n").filter((line) => line.replaceAll("*", "").startsWith(`| ${name} |`));
      for (const figure of [first.replace(/ \(.*/, ""), many]) {
        expect(lines.some((line) => line.includes(`| ${figure} |`))).toBe(true);
      }
    }
  });
});
