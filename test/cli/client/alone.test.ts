/** The command without anything that `npm install` brings: no packages. */
import { spawnSync } from "node:child_process";
import { cpSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { freePort } from "../support.ts";

const ROOT = fileURLToPath(new URL("../../../", import.meta.url));
let folder: string;

beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), "holdfast-alone-"));
  for (const part of ["package.json", "dist/holdfast.js", "dist/command"]) {
    cpSync(join(ROOT, part), join(folder, part), { recursive: true });
  }
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

describe("a command that was copied without its packages", () => {
  const run = (args: string[]) => {
    const { status, stdout, stderr } = spawnSync(process.execPath, [join(folder, "dist/holdfast.js"), ...args], {
      cwd: folder,
      encoding: "utf8",
      env: {},
    });
    return { status, stdout, stderr };
  };

  it.each([
    [["--version"], 0],
    [["--help"], 0],
    [["completion", "zsh"], 0],
    [["run", "--file", "x", "--", process.execPath, "-e", "console.log(1)"], 0],
    [["file", "status", "x"], 0],
  ])("%j works", (args, code) => {
    expect(run(args)).toEqual({ status: code, stdout: expect.stringMatching(/\S/), stderr: "" });
  });

  it("reaches for a server", async () => {
    const url = `http://127.0.0.1:${await freePort()}`;
    for (const args of [
      ["run", "--key", "k", "--url", url, "--", "true"],
      ["ls", "--url", url],
      ["release", "k", "0".repeat(32), "--url", url],
    ]) {
      expect(run(args)).toMatchObject({ status: 69, stderr: expect.stringContaining("connection refused") });
    }
  });
});
