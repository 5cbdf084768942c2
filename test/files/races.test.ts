/** Many processes on one path at the same time. */
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { Contenders } from "./support/contenders.ts";
import { Folder, lockText, now, OLD_S } from "./support/folder.ts";

const CONTENDERS = 16;
const ROUNDS = 200;
/** The claim on an abandoned guard is a smaller race: without it, half as many rounds fail reliably. */
const GUARD_ROUNDS = 100;

let contenders: Contenders;
beforeAll(() => {
  contenders = new Contenders(CONTENDERS, 0.2);
});
afterAll(() => contenders[Symbol.dispose]());

const KINDS: readonly (readonly [string, number, (folder: Folder, name: string) => void])[] = [
  ["a path that is free", ROUNDS, () => {}],
  ["a stale lock", ROUNDS, (folder, name) => folder.write(lockText(now() - OLD_S), { name })],
  ["an old empty file", ROUNDS, (folder, name) => folder.write("", { name, ageS: OLD_S })],
  ["an old malformed file", ROUNDS, (folder, name) => folder.write("pid=abc\n", { name, ageS: OLD_S })],
  [
    "a stale lock beside the guard of a crashed process",
    GUARD_ROUNDS,
    (folder, name) => {
      folder.write(lockText(now() - OLD_S), { name });
      folder.write("", { name: `.${name}.hf-guard`, ageS: 60 });
    },
  ],
];

describe(`of ${CONTENDERS} processes at once, round after round, exactly one acquires`, () => {
  test.each(KINDS)("%s, in %d rounds", async (_, rounds, prepare) => {
    using folder = new Folder();
    for (let round = 0; round < rounds; round += 1) {
      // The names repeat, and with them the inodes that the file system gives.
      const name = `x${round % 4}`;
      prepare(folder, name);
      const reports = await contenders.send(() => ({ kind: "round", path: folder.file(name) }));
      const won = reports.filter(({ kind }) => kind === "won").length;
      const lost = reports.filter(({ kind }) => kind === "lost").length;
      expect({ round, won, lost, reports: won === 1 ? "" : reports }).toEqual({
        round,
        won: 1,
        lost: CONTENDERS - 1,
        reports: "",
      });
      expect(folder.names).toEqual([name]);
      expect(folder.lock(name).timestamp).toBeGreaterThan(now() - 60);
      folder.remove(name);
    }
  });
});

describe("a lock that is taken and released again and again is never held by two", () => {
  test("by sixteen processes", async () => {
    using folder = new Folder();
    const reports = await contenders.send(() => ({
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
    const reports = await contenders.send((index) => ({
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
