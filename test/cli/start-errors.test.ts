/** What stands in the way of a start is named: the path, and what is wrong with it. */
import { mkdirSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { outcome, startServe, temporaryDir } from "./support.ts";

const file = (path: string) => writeFileSync(path, "");
const directory = (path: string) => mkdirSync(path);
const damaged = (path: string) => writeFileSync(path, Buffer.alloc(8_192, "A"));

const obstacles: readonly (readonly [string, string, (path: string) => void])[] = [
  ["serve.lock", "it is a directory", directory],
  ["serve.lock", "file is not a database", damaged],
  ["workerd.pid", "it is a directory", directory],
  ["workerd.capnp", "it is a directory", directory],
  ["objects", "it is not a directory", file],
  ["objects/holdfast-KeyObject", "it is not a directory", file],
  ["objects/holdfast-KeyObject/metadata.sqlite", "it is not an SQLite database", damaged],
  ["objects/holdfast-KeyObject/metadata.sqlite", "it is a directory", directory],
];

describe("holdfast serve", () => {
  test.each(obstacles)("names %s when %s, and exits with code 1", async (name, cause, putInTheWay) => {
    const dataDir = temporaryDir();
    mkdirSync(join(dataDir, name, ".."), { recursive: true });
    putInTheWay(join(dataDir, name));
    expect(await outcome(["serve", "--data-dir", dataDir])).toEqual({
      code: 1,
      signal: null,
      stdout: "",
      stderr: `holdfast: cannot use ${join(dataDir, name)}: ${cause}\n`,
    });
  });

  test("starts although a file cannot be swept, and says so", async () => {
    const dataDir = temporaryDir();
    const objects = join(dataDir, "objects", "holdfast-KeyObject");
    mkdirSync(objects, { recursive: true });
    const loop = join(objects, `${"0".repeat(64)}.sqlite`);
    symlinkSync(loop, loop);
    const server = await startServe({ dataDir });
    expect(server.stderr).toContain(`holdfast: cannot sweep ${loop}: too many symbolic links encountered\n`);
  });
});
