/** Cases F01 to F18, F39: taking and releasing a lock from the command line. */
import { statSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { Folder, lockText, now, OLD_S } from "./support/folder.ts";
import { Shell } from "./support/shell.ts";

describe.concurrent("a path that is free", () => {
  test("F01 is taken: a complete file that names the shell, and nothing beside it", async () => {
    using folder = new Folder();
    using shell = new Shell(folder.path);
    expect(await shell.run("umask 027; holdfast file try x")).toMatchObject({ code: 0, out: "acquired x\n", err: "" });
    const { pid, timestamp, nonce, host, tag } = folder.lock();
    expect(pid).toBe(shell.pid);
    expect(Math.abs(timestamp - now())).toBeLessThanOrEqual(1);
    expect(nonce).toMatch(/^[0-9a-f]{16}$/);
    expect(host).toBeTruthy();
    expect(tag).toBeUndefined();
    expect(statSync(folder.file()).mode & 0o777).toBe(0o640);
    expect(folder.names).toEqual(["x"]);
  });

  test("F02, F03 is held until the same shell releases it", async () => {
    using folder = new Folder();
    using shell = new Shell(folder.path);
    await shell.run("holdfast file try x --tag one");
    const [before, inode] = [folder.text(), folder.inode()];
    const held = await shell.run("holdfast file try x");
    expect(held).toMatchObject({ code: 1, out: "" });
    expect(held.err).toMatch(new RegExp(`^held x pid=${shell.pid} since=\\d+ tag=one\n$`));
    expect([folder.text(), folder.inode()]).toEqual([before, inode]);
    expect(await shell.run("holdfast file release x")).toMatchObject({ code: 0, out: "released x\n", err: "" });
    expect(folder.names).toEqual([]);
  });

  test("F04 is free after release, too", async () => {
    using folder = new Folder();
    using shell = new Shell(folder.path);
    expect(await shell.run("holdfast file release x")).toMatchObject({ code: 0, out: "free x\n", err: "" });
    expect(await shell.json("holdfast file release x")).toEqual({ exit: 0, ok: true, path: "x", released: false });
    expect(folder.names).toEqual([]);
  });

  test("F39 keeps a tag in one line, whatever is in it", async () => {
    using folder = new Folder();
    using shell = new Shell(folder.path);
    expect(await shell.code(`holdfast file try x --tag "$(printf 'a\\npid=9')"`)).toBe(0);
    expect(folder.lock()).toMatchObject({ pid: shell.pid, tag: "a pid=9" });
    expect(folder.text().match(/^pid=/gm)).toHaveLength(1);
  });
});

describe.concurrent("a lock of another shell", () => {
  test("F05, F06 is released by force only, and the command says whose it was", async () => {
    using folder = new Folder();
    using owner = new Shell(folder.path);
    using other = new Shell(folder.path);
    await owner.run("holdfast file try x --tag mine");
    const before = folder.text();
    const refused = await other.run("holdfast file release x");
    expect(refused).toMatchObject({ code: 1, out: "" });
    expect(refused.err).toMatch(new RegExp(`^not owner x pid=${owner.pid} since=\\d+ tag=mine\n$`));
    expect(await other.json("holdfast file release x")).toMatchObject({
      error: "not_owner",
      pid: owner.pid,
      tag: "mine",
    });
    expect(folder.text()).toBe(before);
    const forced = await other.run("holdfast file release x --force");
    expect(forced).toMatchObject({ code: 0, err: "" });
    expect(forced.out).toMatch(new RegExp(`^released x \\(was pid=${owner.pid} since=\\d+ tag=mine\\)\n$`));
    expect(folder.names).toEqual([]);
  });

  test("F07 is the own one if both name the same owner", async () => {
    using folder = new Folder();
    using one = new Shell(folder.path, { HOLDFAST_OWNER_PID: "77" });
    using two = new Shell(folder.path, { HOLDFAST_OWNER_PID: "77" });
    expect(await one.code("holdfast file try x")).toBe(0);
    expect(folder.lock().pid).toBe(77);
    expect(await two.code("holdfast file release x")).toBe(0);
    expect(folder.names).toEqual([]);
  });

  test("an owner that is no process id is a usage error, and nothing is made", async () => {
    using folder = new Folder();
    using shell = new Shell(folder.path);
    for (const pid of ["0", "-1", "x", "", "4294967296", "1.5"]) {
      const { code, err } = await shell.run(`HOLDFAST_OWNER_PID='${pid}' holdfast file try x`);
      expect([pid, code, err]).toEqual([pid, 2, expect.stringMatching(/^usage: [^\n]+HOLDFAST_OWNER_PID[^\n]+\n$/)]);
    }
    expect(folder.names).toEqual([]);
  });

  test("of another host is not owned, though the process id is the same", async () => {
    using folder = new Folder();
    using shell = new Shell(folder.path);
    folder.write(lockText(now(), shell.pid, "host=elsewhere.example\n"));
    expect(await shell.code("holdfast file release x")).toBe(1);
    expect(await shell.json("holdfast file status x")).toMatchObject({ host: "elsewhere.example", running: null });
    folder.write(lockText(now(), shell.pid));
    expect(await shell.code("holdfast file release x")).toBe(0);
  });
});

describe.concurrent("a file that is there already", () => {
  test("F08 is held at exactly the stale age", async () => {
    using folder = new Folder();
    using shell = new Shell(folder.path);
    // Only a run within one second shows it.
    for (let second = -1; second !== now(); ) {
      second = now();
      folder.write(lockText(second - 3600));
      const code = await shell.code("holdfast file try x");
      if (second === now()) expect(code).toBe(1);
    }
  });

  test.each([
    ["F09 a lock older than that is taken over", lockText(now() - 3602), 0, "", 0],
    ["F10 also when its process lives", lockText(now() - OLD_S, process.pid), 0, "", 0],
    ["F11 not with --stale 0", lockText(now() - OLD_S), 0, "--stale 0", 1],
    ["F12 not with a longer --stale", lockText(now() - OLD_S), 0, "--stale 10000", 1],
    ["F13 a lock of the future is held", lockText(now() + 86_400), OLD_S, "", 1],
    ["F14 an empty file is held", "", 0, "", 1],
    ["F15 an old empty file is taken over", "", OLD_S, "", 0],
    ["F16 a malformed file is held", "pid=abc\n", 0, "", 1],
    ["F16 an old malformed file is taken over", "pid=abc\n", OLD_S, "", 0],
    ["F18 a very long file is held", "x".repeat(1 << 20), 0, "", 1],
    ["--stale is rounded down", lockText(now() - 5), 0, "--stale 2.9", 0],
  ])("%s", async (_, text, ageS, flags, code) => {
    using folder = new Folder();
    using shell = new Shell(folder.path);
    folder.write(text, { ageS });
    const outcome = await shell.json(`holdfast file try x ${flags}`);
    expect(outcome.exit).toBe(code);
    if (code === 0) {
      expect(outcome).toMatchObject({ ok: true, took_over: true, pid: shell.pid, waited_s: expect.any(Number) });
      expect(folder.lock()).toMatchObject({ pid: shell.pid, timestamp: outcome.timestamp, nonce: outcome.nonce });
    } else {
      expect(outcome).toMatchObject({ ok: false, error: "held", path: "x" });
      expect(folder.text()).toBe(text);
    }
    expect(folder.names).toEqual(["x"]);
  });

  test("F14 an empty file is reported as malformed and locked", async () => {
    using folder = new Folder();
    using shell = new Shell(folder.path);
    folder.write("");
    const status = { exit: 1, ok: true, path: "x", locked: true, state: "malformed", stale: false, running: null };
    const nobody = { pid: null, timestamp: null, tag: null, host: null, age_s: expect.any(Number) };
    expect(await shell.json("holdfast file status x")).toEqual({ ...status, ...nobody });
    expect((await shell.run("holdfast file try x")).err).toMatch(/^held x malformed age=\d+\n$/);
    expect(await shell.json("holdfast file release x")).toMatchObject({ exit: 1, error: "not_owner", pid: null });
    expect(await shell.json("holdfast file release x --force")).toMatchObject({ exit: 0, forced: true, pid: null });
    expect(folder.names).toEqual([]);
  });
});
