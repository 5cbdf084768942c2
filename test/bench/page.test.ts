import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { describe, expect, it } from "vitest";
import { ON_DISK, REST, WEBSOCKET } from "../../bench/contenders.ts";
import type { Result } from "../../bench/cycles.ts";
import type { Findings } from "../../bench/findings.ts";
import { goalLines, goalsOf } from "../../bench/goals.ts";
import { barChart } from "../../bench/page/chart.ts";
import { benchmarksPage, chartsOf, README_BEGIN, readmeFigures, withFigures } from "../../bench/page/text.ts";

const result = (cyclesPerSecond: number, more: Partial<Result> = {}): Result => ({
  cyclesPerSecond,
  turns: [cyclesPerSecond, cyclesPerSecond],
  cycle: { p50: 1.5, p99: 20 },
  handOver: undefined,
  handOverTurns: [],
  cpuPerCycle: 0.5,
  clientsBusy: 0.1,
  ...more,
});

const measured = (more: Partial<Result> = {}) => [
  { label: ON_DISK, isDurable: true, result: result(200, more) },
  { label: "etcd", isDurable: true, result: result(400, more) },
  { label: "Redis, default", isDurable: false, result: result(12_000, { ...more, clientsBusy: 0.99 }) },
];

const handedOver = (p50: number) => result(100, { handOver: { p50, p99: 12 }, handOverTurns: [p50, p50] });

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
    holdfast: "0.1.0",
  },
  load: [0.2, 1.5],
  servers: [
    { name: ON_DISK, promise: "on disk", isDurable: true, version: "0.1.0" },
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
      measured: [
        ...measured({ handOver: { p50: 2.5, p99: 12 } }),
        { label: WEBSOCKET, isDurable: true, result: handedOver(2) },
        { label: REST, isDurable: true, result: handedOver(3) },
      ],
    },
  ],
  capacity: {
    connectsPerSecond: { tcp: 3_000, ws: 1_499 },
    bytesPerConnection: { tcp: 10 * 1024, ws: 20 * 1024 },
    idleBytes: 90 * 2 ** 20,
    bytesPerHeldKey: 2_048,
    reportMs: { keys: 100_000, metrics: 20, stats: 400 },
    startMs: { empty: 250, withHeldKeys: 700 },
    comeBack: { clients: 5_000, back: 5_000, halfMs: 2_000, allMs: 3_000, lost: 0 },
  },
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
    expect(page).toContain(`| **${ON_DISK}** | 200 | 1 | 1.50 | 20.0 | 0.500 |`);
    expect(page).toContain("| etcd | 400 | 2.00 (2.00-2.00) | 1.50 | 20.0 | 0.500 |");
    expect(page).toContain("| Redis, default | ≥ 12,000 | 60.00 (60.00-60.00) |");
    expect(page).toContain(`| **${ON_DISK}** | 200 | 1 | 1.50 | 20.0 | 2.50 | 12.0 | 0.500 |`);
    expect(page).toContain("| memory of an idle connection | 10.0 KB | 20.0 KB |");
  });

  it("says when other work was running", () => {
    expect(benchmarksPage({ ...FINDINGS, load: [1.5, 2] })).toContain("do not rely on these figures");
    expect(readmeFigures({ ...FINDINGS, load: [1.5, 2] })).toContain("Other work was running there (load 1.5 to 2.0)");
    expect(benchmarksPage({ ...FINDINGS, load: [0.2, 6] })).toContain("do not rely on these figures");
  });

  it("leaves out a ratio to nothing", () => {
    const none = [{ label: ON_DISK, isDurable: true, result: result(0) }, ...measured().slice(1)];
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

describe("goals", () => {
  const verdicts = (findings: Findings) => Object.fromEntries(goalsOf(findings).map((goal) => [goal.title, goal]));

  it("are met, missed, or not measured", () => {
    const goals = verdicts(FINDINGS);
    expect(goals["own keys, 50 clients, of etcd"]).toMatchObject({ verdict: "missed", value: "0.50 (0.50-0.50)" });
    expect(goals["own keys, 50 clients, of Redis with fsync always"]?.verdict).toBe("not measured");
    expect(goals["hand-over to REST, of one to WebSocket"]).toMatchObject({ verdict: "met", must: "≤ 2.00" });
    expect(goals["TCP clients that connect and have an answer"]?.verdict).toBe("met");
    expect(goals["WebSocket clients that connect and have an answer"]?.verdict).toBe("missed");
    expect(goals["memory of a held key"]).toMatchObject({ verdict: "met", isAimReached: true });
    expect(goals["memory of an idle WebSocket connection"]).toMatchObject({ verdict: "met", isAimReached: false });
    expect(goals["5,000 clients back after kill -9"]).toMatchObject({ verdict: "met", value: "3.00 s" });
  });

  it("count a client that did not come back as missed", () => {
    const { capacity } = FINDINGS;
    if (!capacity) throw new Error("no capacity");
    const comeBack = { ...capacity.comeBack, back: 4_999, lost: 1 };
    const goals = verdicts({ ...FINDINGS, capacity: { ...capacity, comeBack } });
    expect(goals["5,000 clients back after kill -9"]).toMatchObject({
      verdict: "missed",
      value: "1 did not come back",
    });
    expect(goals["of them, lost a lock or a place"]?.verdict).toBe("missed");
  });

  it("are printed with value and verdict", () => {
    const lines = goalLines(goalsOf(FINDINGS)).join("\n");
    expect(lines).toMatch(/^one client, of etcd +≥ 1\.00 +0\.50 \(0\.50-0\.50\) +MISSED$/m);
    expect(lines).toMatch(/^memory of a held key +≤ 6\.0 KB +2\.0 KB +MET, aim ≤ 3\.0 KB reached$/m);
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
    expect(figures).toContain(`| ${ON_DISK} | on disk | 200 (1.50 ms) | 200 | | 2.50 ms |`);
    expect(figures).toContain("| Redis, default | in memory | ≥ 12,000 (1.50 ms) | ≥ 12,000 | | 2.50 ms |");
    expect(figures).toContain("5,000 of 5,000 clients were back within 3.00 s; none lost anything");
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
