import { afterEach, beforeEach, expect, test, vi } from "vitest";

let lines: Record<string, unknown>[];
let log: typeof import("../../src/log.ts").log;

beforeEach(async () => {
  vi.resetModules();
  vi.useFakeTimers({ toFake: ["Date"], now: 1_000_000 });
  ({ log } = await import("../../src/log.ts"));
  lines = [];
  for (const level of ["error", "warn", "debug"] as const) {
    vi.spyOn(console, level).mockImplementation((line: string) => void lines.push({ level, ...JSON.parse(line) }));
  }
});
afterEach(() => {
  vi.useRealTimers();
  vi.restoreAllMocks();
});

function flood(event: string, times: number, group?: string) {
  for (let time = 0; time < times; time++) log("warn", event, { turn: time }, group);
}

test("an event is one line with its fields", () => {
  log("error", "it_broke", { error: "x" });
  log("debug", "alone");
  expect(lines).toEqual([
    { level: "error", time: "1970-01-01T00:16:40.000Z", event: "it_broke", error: "x" },
    { level: "debug", time: "1970-01-01T00:16:40.000Z", event: "alone" },
  ]);
});

test("a flood is cut after ten lines, and the next period tells how many were left out", () => {
  flood("refused", 25);
  expect(lines).toHaveLength(10);
  vi.setSystemTime(1_009_999);
  flood("refused", 1);
  expect(lines).toHaveLength(10);
  vi.setSystemTime(1_010_000);
  flood("refused", 1);
  expect(lines.at(-1)).toMatchObject({ level: "warn", event: "refused", turn: 0, suppressed: 16 });
});

test("a flood does not swallow another event, nor another group of its own", () => {
  flood("http_failed", 500, "not_found");
  flood("other", 1);
  flood("http_failed", 1, "internal");
  flood("http_failed", 1);
  expect(lines).toHaveLength(13);
});

test("what is left out is told per group", () => {
  flood("http_failed", 12, "not_found");
  flood("http_failed", 1, "internal");
  vi.setSystemTime(1_010_000);
  flood("http_failed", 1, "internal");
  flood("http_failed", 1, "not_found");
  expect(lines.slice(-2).map(({ suppressed }) => suppressed)).toEqual([undefined, 2]);
});

test("groups without end are counted together after a while", () => {
  for (let group = 0; group < 1_000; group++) flood("http_failed", 1, `group ${group}`);
  expect(lines).toHaveLength(210);
});
