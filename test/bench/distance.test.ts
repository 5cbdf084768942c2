import { expect, it } from "vitest";
import { distanceTable } from "../../bench/distance/table.ts";

it("the table of distances has a line for each path and a column for each distance", () => {
  const times = [5, 80].map((crossingMs) => ({ crossingMs, elapsedMs: 2 * crossingMs }));
  const paths = ["connect", "release"].map((name) => ({ name, calls: 1, crossings: 2, times }));
  expect(distanceTable(paths).split("\n")).toEqual([
    "what a client waits for  calls  crossings  5 ms  80 ms",
    "connect                      1          2    10    160",
    "release                      1          2    10    160",
  ]);
});
