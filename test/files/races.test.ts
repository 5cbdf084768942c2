/** Many processes on one path at the same time. */
import { describe, expect, test } from "vitest";
import { Folder } from "./support/folder.ts";
import { CONTENDERS, describeRaces, useContenders } from "./support/races.ts";

const contenders = useContenders();

describeRaces(contenders, 20, 20);

describe("a lock that is taken and released again and again is never held by two", () => {
  test("by sixteen processes", async () => {
    using folder = new Folder();
    const reports = await contenders().send(() => ({
      kind: "loop",
      by: "holdfast",
      path: folder.file(),
      marker: folder.file("marker"),
      times: 15,
    }));
    expect(reports).toEqual(Array(CONTENDERS).fill({ kind: "looped" }));
    expect(folder.names).toEqual([]);
  });

  test("by processes of which half take it by the published protocol alone", async () => {
    using folder = new Folder();
    const reports = await contenders().send((index) => ({
      kind: "loop",
      by: index % 2 === 0 ? "holdfast" : "seed",
      path: folder.file(),
      marker: folder.file("marker"),
      times: 15,
    }));
    expect(reports).toEqual(Array(CONTENDERS).fill({ kind: "looped" }));
    expect(folder.names).toEqual([]);
  });
});
