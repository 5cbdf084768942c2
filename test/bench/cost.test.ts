import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { describe, expect, it } from "vitest";
import { type Counts, difference, eventsOf, NO_COUNTS, perTime } from "../../bench/cost/counts.ts";
import { costDocument, dollars, figure, printed } from "../../bench/cost/document.ts";
import { activeMsOf, dollarsByMeter, dollarsPerMillion, PRICES, requestsOf } from "../../bench/cost/prices.ts";

const counts = (some: Partial<Counts>): Counts => ({ ...NO_COUNTS, ...some });

describe("prices", () => {
  it("are those that Cloudflare publishes", () => {
    const perMillion = Object.fromEntries(Object.entries(PRICES).map(([meter, price]) => [meter, price.perMillion]));
    expect(perMillion).toEqual({
      rowsWritten: 1,
      requests: 0.15,
      gbSeconds: 12.5,
      workerRequests: 0.3,
      rowsRead: 0.001,
    });
  });

  it("charge a call and an alarm as a request, twenty messages as one, and a closing socket as none", () => {
    expect(requestsOf(counts({ calls: 3, alarms: 2, messages: 40, closes: 5, workerRequests: 7 }))).toBe(7);
  });

  it("charge 5 ms for an event, and all the time in which a timer keeps an object awake", () => {
    const some = counts({ calls: 1, alarms: 1, messages: 1, closes: 1, heldMs: 1_000 });
    expect(eventsOf(some)).toBe(4);
    expect(activeMsOf(some)).toBe(1_020);
    expect(dollarsByMeter(some).gbSeconds).toBeCloseTo(1.02 * 0.128 * 12.5, 10);
  });

  it("add up: two rows, two calls and two messages are the known $2.35", () => {
    const cycle = counts({ rowsWritten: 2, calls: 2, messages: 2 });
    expect(dollars(dollarsPerMillion(cycle))).toBe("$2.35");
    expect(dollarsPerMillion(NO_COUNTS)).toBe(0);
    expect(dollarsPerMillion(counts({ workerRequests: 1, rowsRead: 10 }))).toBeCloseTo(0.31, 10);
  });
});

describe("counts", () => {
  it("of a life are those after it less those before it, divided by how often it was lived", () => {
    const [before, after] = [counts({ calls: 5, rowsWritten: 1 }), counts({ calls: 15, rowsWritten: 5 })];
    const life = { name: "x", times: 4, counts: difference(after, before) };
    expect(perTime(life)).toEqual(counts({ calls: 2.5, rowsWritten: 1 }));
  });
});

describe("the document", () => {
  const lives = [
    { name: "a cycle", times: 10, counts: counts({ rowsWritten: 20, calls: 20, messages: 20 }) },
    { name: "nothing", times: 1, counts: NO_COUNTS },
  ];

  it("has a line for each life, with its counts and its dollars", () => {
    const text = costDocument(lives);
    expect(text).toContain("| a cycle | 2 | 2 | 0 | 2 | 0 | 20 | **$2.35** |");
    expect(text).toContain("| nothing | 0 | 0 | 0 | 0 | 0 | 0 | **$0.00** |");
    expect(text).toContain("| a cycle | $2.00 | $0.32 | $0.03 | | |");
    for (const { unit } of Object.values(PRICES)) expect(text).toContain(`| ${unit} |`);
  });

  it("is printed with the same figures", () => {
    expect(printed(lives)).toMatch(/^a cycle +2 +2 +0 +2 +0 +20 +\$2\.35$/m);
  });

  it("in the repository was written by this program, and its sums are right", () => {
    const file = fileURLToPath(new URL("../../docs/cost.md", import.meta.url));
    const text = readFileSync(file, "utf8");
    const rows = text.split("\n").filter((line) => /\*\*\$[0-9.]+\*\* \|$/.test(line));
    expect(rows.length).toBeGreaterThan(5);
    for (const row of rows) {
      const [, , rowsWritten, calls, alarms, messages, workerRequests, activeMs, sum] = row
        .split("|")
        .map((cell) => Number(cell.replace(/[*$,]/g, "").trim()));
      const requests = (calls ?? 0) + (alarms ?? 0) + (messages ?? 0) / 20;
      const expected =
        (rowsWritten ?? 0) + requests * 0.15 + (workerRequests ?? 0) * 0.3 + ((activeMs ?? 0) / 1000) * 0.128 * 12.5;
      // The counts are rounded to tenths, and rows read are not shown.
      expect(Math.abs(expected - (sum ?? 0))).toBeLessThan(0.15);
    }
    expect(text).toBe(
      text.slice(0, text.indexOf("## Prices")) + costDocument([]).slice(costDocument([]).indexOf("## Prices")),
    );
  });
});

describe("figures", () => {
  it.each([
    [0, 2, "0"],
    [2, 1, "2"],
    [2.06, 1, "2.1"],
    [0.25, 2, "0.25"],
    [1_234.5, 0, "1,235"],
    [12_345_678.25, 2, "12,345,678.25"],
    [100, 2, "100"],
  ])("%d with %d decimals is %s", (value, digits, text) => {
    expect(figure(value, digits)).toBe(text);
  });
});
