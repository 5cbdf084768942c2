import {
  existsSync,
  mkdirSync,
  readdirSync,
  renameSync,
  rmSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { describe, expect, test } from "vitest";
import { sweepEmptyDatabases, sweepWhileInUse } from "../../src/front/workerd/sweep.ts";
import { temporaryDir } from "./support.ts";

const NOW = { olderThanMs: 0, budgetMs: 10_000 };
const name = (digit: string) => `${digit.repeat(64)}.sqlite`;

/** A database that has had a table, and has been emptied, as an object leaves it. */
function emptied(directory: string, file: string): string {
  const path = join(directory, file);
  const database = new DatabaseSync(path);
  database.exec("CREATE TABLE t (x); DROP TABLE t; VACUUM");
  database.close();
  return path;
}

describe("a sweep", () => {
  test("removes databases without a table, and only those", () => {
    const directory = temporaryDir();
    const empty = emptied(directory, name("a"));
    const used = join(directory, name("b"));
    const database = new DatabaseSync(used);
    database.exec("CREATE TABLE t (x)");
    database.close();
    const stranger = emptied(directory, "metadata.sqlite");
    expect(sweepEmptyDatabases(directory, NOW)).toBe(1);
    expect([empty, used, stranger].map((path) => existsSync(path))).toEqual([false, true, true]);
  });

  test("leaves one alone that has a log beside it: there may be more in it than it shows", () => {
    const directory = temporaryDir();
    const path = emptied(directory, name("c"));
    writeFileSync(`${path}-wal`, "");
    expect(sweepEmptyDatabases(directory, NOW)).toBe(0);
    expect(existsSync(path)).toBe(true);
  });

  test("leaves young ones alone when asked to", () => {
    const directory = temporaryDir();
    const [young, old] = [emptied(directory, name("d")), emptied(directory, name("e"))];
    utimesSync(old, new Date(0), new Date(0));
    expect(sweepEmptyDatabases(directory, { ...NOW, olderThanMs: 60_000 })).toBe(1);
    expect([young, old].map((path) => existsSync(path))).toEqual([true, false]);
  });

  test("while objects may be opened removes what stays closed", async () => {
    const directory = temporaryDir();
    const path = emptied(directory, name("1"));
    expect(await sweepWhileInUse(directory, { ...NOW, opensWithinMs: 100 })).toBe(1);
    expect(readdirSync(directory)).toEqual([]);
    expect(existsSync(path)).toBe(false);
  });

  test("gives a file back whose object had opened it in that moment, with what it has stored since", async () => {
    const directory = temporaryDir();
    const path = emptied(directory, name("2"));
    const database = new DatabaseSync(path);
    const sweeping = sweepWhileInUse(directory, { ...NOW, opensWithinMs: 100 });
    writeFileSync(`${path}-wal`, "");
    expect(await sweeping).toBe(0);
    rmSync(`${path}-wal`);
    database.exec("CREATE TABLE t (x); INSERT INTO t VALUES (7)");
    database.close();
    expect(new DatabaseSync(path).prepare("SELECT x FROM t").get()).toEqual({ x: 7 });
  });

  test("lets an object that comes meanwhile have a file of its own", async () => {
    const directory = temporaryDir();
    const path = emptied(directory, name("3"));
    const sweeping = sweepWhileInUse(directory, { ...NOW, opensWithinMs: 100 });
    const database = new DatabaseSync(path);
    database.exec("CREATE TABLE t (x); INSERT INTO t VALUES (8)");
    expect(await sweeping).toBe(1);
    expect(readdirSync(directory)).toEqual([name("3")]);
    expect(database.prepare("SELECT x FROM t").get()).toEqual({ x: 8 });
  });

  test("finishes at the next start what a crash has cut off", () => {
    const directory = temporaryDir();
    const [empty, used] = [emptied(directory, name("4")), emptied(directory, name("5"))];
    writeFileSync(`${used}-wal`, "");
    for (const path of [empty, used]) renameSync(path, `${path}.swept`);
    sweepEmptyDatabases(directory, NOW);
    expect(readdirSync(directory)).toEqual([name("5"), `${name("5")}-wal`]);
  });

  test("says which file it cannot remove and why, and goes on with the others", () => {
    const directory = temporaryDir();
    const loop = join(directory, name("0"));
    symlinkSync(loop, loop);
    const empty = emptied(directory, name("f"));
    const lines: string[] = [];
    expect(sweepEmptyDatabases(directory, NOW, (line) => lines.push(line))).toBe(1);
    expect(existsSync(empty)).toBe(false);
    expect(lines).toEqual([`holdfast: cannot sweep ${loop}: too many symbolic links encountered`]);
  });

  test("says what it cannot list and why", () => {
    const file = join(temporaryDir(), "file");
    writeFileSync(file, "");
    const lines: string[] = [];
    expect(sweepEmptyDatabases(file, NOW, (line) => lines.push(line))).toBe(0);
    expect(lines).toEqual([`holdfast: cannot sweep ${file}: not a directory`]);
  });

  test("of a directory that does not exist finds nothing", () => {
    const directory = join(temporaryDir(), "nothing");
    expect(sweepEmptyDatabases(directory, NOW)).toBe(0);
    mkdirSync(directory);
    expect(sweepEmptyDatabases(directory, NOW)).toBe(0);
  });
});
