/** Cases F17 and F19 to F25: paths that cannot be locks, and directories and disks that refuse. */
import { execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { chmodSync, chownSync, lstatSync, mkdirSync, symlinkSync, writeFileSync } from "node:fs";
import { text } from "node:stream/consumers";
import { fileURLToPath } from "node:url";
import { describe, expect, test } from "vitest";
import { Folder, lockText, now, OLD_S } from "./support/folder.ts";
import { Shell } from "./support/shell.ts";

const UNPRIVILEGED = fileURLToPath(new URL("programs/unprivileged.ts", import.meta.url));
const NOBODY = 65_534;

/** Runs `holdfast file` with `--json` as a user who is not root. */
async function asNobody(
  ...args: readonly string[]
): Promise<Record<string, unknown> & { readonly exit: number | null }> {
  const child = spawn(process.execPath, [UNPRIVILEGED, ...args, "--json"], { stdio: ["ignore", "pipe", "inherit"] });
  const exited = once(child, "exit") as Promise<[number | null]>;
  const [line, [exit]] = await Promise.all([text(child.stdout), exited]);
  return { ...(JSON.parse(line) as Record<string, unknown>), exit };
}

/** Gives a folder to the user of `asNobody`. */
function giveAway(path: string): void {
  if (process.getuid?.() === 0) chownSync(path, NOBODY, NOBODY);
}

const ONE_LINE = /^error [^\n]+\n$/;

describe.concurrent("a path where no lock can be", () => {
  test("F19 a dangling link is left alone, and nothing is made at its target", async () => {
    using folder = new Folder();
    using shell = new Shell(folder.path);
    symlinkSync("target", folder.file());
    for (const command of ["try x", "acquire x", "status x", "release x --force", "refresh x", "wait x", "clean x"]) {
      const { code, out, err } = await shell.run(`holdfast file ${command}`);
      expect([command, code, out, err]).toEqual([command, 3, "", "error x: not a regular file\n"]);
    }
    expect(folder.names).toEqual(["x"]);
    expect(lstatSync(folder.file()).isSymbolicLink()).toBe(true);
  });

  test("F20 a link to a stale lock is not followed", async () => {
    using folder = new Folder();
    using shell = new Shell(folder.path);
    const text = lockText(now() - OLD_S);
    folder.write(text, { name: "target" });
    symlinkSync("target", folder.file());
    expect(await shell.json("holdfast file try x")).toEqual({
      exit: 3,
      ok: false,
      error: "path",
      path: "x",
      code: null,
      message: "not a regular file",
    });
    expect(folder.text("target")).toBe(text);
    expect(folder.names).toEqual(["target", "x"]);
  });

  test("F21 a directory and a pipe are refused at once", async () => {
    using folder = new Folder();
    using shell = new Shell(folder.path);
    mkdirSync(folder.file("directory"));
    execFileSync("mkfifo", [folder.file("pipe")]);
    for (const name of ["directory", "pipe"]) {
      for (const command of ["try", "wait --timeout 30", "acquire --timeout 30", "release --force", "status"]) {
        const { code, err, ms } = await shell.run(`holdfast file ${command} ${name}`);
        expect([command, code, err]).toEqual([command, 3, `error ${name}: not a regular file\n`]);
        expect(ms).toBeLessThan(10_000);
      }
    }
    expect(folder.names).toEqual(["directory", "pipe"]);
  });

  test("F22 what names no file in a directory is refused, and nothing is made", async () => {
    using folder = new Folder();
    using shell = new Shell(folder.path);
    writeFileSync(folder.file("file"), "");
    mkdirSync(folder.file("d"));
    const paths = ["''", "d/", ".", "..", "d/.", "d/..", "/", "nodir/x", "file/x", `$(printf '%05000d' 1)`];
    for (const path of [...paths, `d/$(printf '%0300d' 1)/x`]) {
      const { code, out, err } = await shell.run(`holdfast file try ${path}`);
      expect([path, code, out, err]).toEqual([path, 3, "", expect.stringMatching(ONE_LINE)]);
    }
    expect(await shell.json("holdfast file try nodir/x")).toMatchObject({
      error: "path",
      path: "nodir/x",
      message: "its directory does not exist",
    });
    expect(folder.names).toEqual(["d", "file"]);
  });

  test("dots elsewhere, and links to directories, are fine", async () => {
    using folder = new Folder();
    using shell = new Shell(folder.path);
    mkdirSync(folder.file("d"));
    symlinkSync("d", folder.file("link"));
    for (const path of ["d/../x", "./y", "link/z", "...", ".hidden", "-"]) {
      expect([path, await shell.code(`holdfast file try ${path}`)]).toEqual([path, 0]);
    }
    expect(await shell.code("holdfast file try -- --dashes")).toBe(0);
    expect(folder.names).toEqual(["-", "--dashes", "...", ".hidden", "d", "link", "x", "y"]);
  });

  test("F23 a name of 220 bytes is fine, one of 221 is not", async () => {
    using folder = new Folder();
    using shell = new Shell(folder.path);
    const longest = "ä".repeat(110);
    expect(await shell.code(`holdfast file try ${longest}`)).toBe(0);
    expect(await shell.code(`holdfast file refresh ${longest}`)).toBe(0);
    expect(await shell.code(`holdfast file release ${longest}`)).toBe(0);
    expect(await shell.run(`holdfast file try ${longest}x`)).toMatchObject({ code: 3, out: "" });
    expect(folder.names).toEqual([]);
  });
});

describe.concurrent("a file or directory that refuses", () => {
  test.each([
    ["is held while it is young", 0, 1],
    ["is taken over when it is old", OLD_S, 0],
  ])("F17 an unreadable file %s", async (_, ageS, exit) => {
    using folder = new Folder();
    giveAway(folder.path);
    folder.write(lockText(now()), { ageS });
    chmodSync(folder.file(), 0);
    expect(await asNobody("try", folder.file())).toMatchObject({ exit });
    if (exit === 1) expect(await asNobody("status", folder.file())).toMatchObject({ state: "malformed", pid: null });
    expect(folder.names).toEqual(["x"]);
  });

  test("F24 a directory that is not writable gives an I/O error", async () => {
    using folder = new Folder();
    chmodSync(folder.path, 0o555);
    expect(await asNobody("try", folder.file())).toMatchObject({ exit: 3, error: "io", message: "permission denied" });
    expect(folder.names).toEqual([]);
    expect(await asNobody("status", folder.file())).toMatchObject({ exit: 0, state: "free" });
  });

  test("F25 a disk that takes no byte more gives an I/O error, and nothing is left", async () => {
    using folder = new Folder();
    using shell = new Shell(folder.path);
    // No file may grow; writing fails as on a full disk. The output goes through a pipe.
    const onFullDisk = (command: string) =>
      shell.run(`(ulimit -f 0; trap '' XFSZ; holdfast file ${command} --json; echo $?) 2>&1 | cat`);
    const { out } = await onFullDisk("try x");
    expect(out).toMatch(/^\{"ok":false,"error":"io","path":"x","code":"EFBIG","message":"[^"\n]+"\}\n3\n$/);
    expect(folder.names).toEqual([]);
    folder.write(lockText(now() - OLD_S));
    expect((await onFullDisk("try x")).out).toMatch(/\n3\n$/);
    expect(folder.names).toEqual([]);
  });

  test("a full disk does not keep a lock from being released", async () => {
    using folder = new Folder();
    using shell = new Shell(folder.path);
    await shell.run("holdfast file try x");
    const owner = `HOLDFAST_OWNER_PID=${shell.pid}`;
    const { out } = await shell.run(`(ulimit -f 0; trap '' XFSZ; ${owner} holdfast file release x) 2>&1 | cat`);
    expect(out).toBe("released x\n");
    expect(folder.names).toEqual([]);
  });
});
