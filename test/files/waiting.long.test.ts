/** Case F43: a young guard is waited for. */
import { describe, expect, test } from "vitest";
import { Folder } from "./support/folder.ts";
import { Shell } from "./support/shell.ts";

const GUARD = ".x.hf-guard";

describe("a guard left by a crash", () => {
  test("F43 is waited for while it is young, ten seconds", async () => {
    using folder = new Folder();
    using shell = new Shell(folder.path);
    await shell.run("holdfast file try x");
    folder.write("", { name: GUARD });
    const { code, ms } = await shell.run("holdfast file release x");
    expect(code).toBe(0);
    expect(ms).toBeGreaterThan(9_500);
    expect(ms).toBeLessThan(15_000);
    expect(folder.names).toEqual([]);
  });
});
