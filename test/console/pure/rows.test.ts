/** Which rows of a long list are in the document. */
import { describe, expect, it } from "vitest";
import { rowsInView, rowsToDraw } from "../../../src/console/keys/rows.ts";

const window = { windowHeight: 500, rowHeight: 50, count: 1_000 };

describe("the rows in view", () => {
  it("are the first ones at the top of the page", () => {
    expect(rowsInView({ ...window, top: 200 })).toEqual({ first: 0, last: 5 });
  });
  it("include those of which only a part is seen", () => {
    expect(rowsInView({ ...window, top: -5_025 })).toEqual({ first: 100, last: 110 });
  });
  it("end with the list", () => {
    expect(rowsInView({ ...window, top: -49_800 })).toEqual({ first: 996, last: 999 });
    expect(rowsInView({ ...window, top: -90_000 })).toEqual({ first: 999, last: 999 });
  });
});

describe("the rows in the document", () => {
  it("are few, however long the list is", () => {
    expect(rowsToDraw({ first: 500, last: 510 }, 1_000, -1)).toHaveLength(27);
  });
  it("include the one with the focus and its neighbours, in their places", () => {
    expect(rowsToDraw({ first: 500, last: 510 }, 1_000, 3).slice(0, 4)).toEqual([2, 3, 4, 492]);
    expect(rowsToDraw({ first: 0, last: 5 }, 1_000, 999).slice(-3)).toEqual([13, 998, 999]);
    expect(rowsToDraw({ first: 0, last: 5 }, 1_000, 4)).toHaveLength(14);
  });
  it("are none of an empty list", () => {
    expect(rowsToDraw({ first: 0, last: 0 }, 0, -1)).toEqual([]);
  });
});
