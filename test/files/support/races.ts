/** Many processes on one path at the same time, round after round. */
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { Contenders } from "./contenders.ts";
import { Folder, lockText, now, OLD_S } from "./folder.ts";

export const CONTENDERS = 16;

/** Starts the contenders of a test file, and ends them with it. */
export function useContenders(): () => Contenders {
  let contenders: Contenders;
  beforeAll(() => {
    contenders = new Contenders(CONTENDERS, 0.2);
  });
  afterAll(() => contenders[Symbol.dispose]());
  return () => contenders;
}

type Kind = readonly [string, (folder: Folder, name: string) => void];

const KINDS: readonly Kind[] = [
  ["a path that is free", () => {}],
  ["a stale lock", (folder, name) => folder.write(lockText(now() - OLD_S), { name })],
  ["an old empty file", (folder, name) => folder.write("", { name, ageS: OLD_S })],
  ["an old malformed file", (folder, name) => folder.write("pid=abc\n", { name, ageS: OLD_S })],
];

/** The claim on an abandoned guard is a smaller race. */
const ABANDONED: Kind = [
  "a stale lock beside the guard of a crashed process",
  (folder, name) => {
    folder.write(lockText(now() - OLD_S), { name });
    folder.write("", { name: `.${name}.hf-guard`, ageS: 60 });
  },
];

/** So many rounds for each kind of path. */
export function describeRaces(contenders: () => Contenders, rounds: number, abandonedRounds: number): void {
  const races = [
    ...KINDS.map(([kind, prepare]) => [kind, rounds, prepare] as const),
    [ABANDONED[0], abandonedRounds, ABANDONED[1]] as const,
  ];

  describe(`of ${CONTENDERS} processes at once, round after round, exactly one acquires`, () => {
    test.each(races)("%s, in %d rounds", async (_, rounds, prepare) => {
      using folder = new Folder();
      for (let round = 0; round < rounds; round += 1) {
        // The names repeat, and with them the inodes that the file system gives.
        const name = `x${round % 4}`;
        prepare(folder, name);
        const reports = await contenders().send(() => ({ kind: "round", path: folder.file(name) }));
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
}
