/** Cases F26 to F32, F42 and F43: waiting for a lock, and for a guard. */
import { setTimeout as pause } from "node:timers/promises";
import { describe, expect, test } from "vitest";
import { Folder, lockText, now, OLD_S } from "./support/folder.ts";
import { Shell } from "./support/shell.ts";

const GUARD = ".x.hf-guard";

describe.concurrent("acquire", () => {
  test("F26 makes one attempt with --timeout 0", async () => {
    using folder = new Folder();
    using shell = new Shell(folder.path);
    folder.write(lockText(now(), 7, "tag=t\n"));
    const ran = await shell.run("holdfast file acquire x --timeout 0");
    expect(ran).toMatchObject({ code: 1, out: "" });
    expect(ran.err).toMatch(/^timeout x pid=7 since=\d+ tag=t\n$/);
    expect(ran.ms).toBeLessThan(5_000);
  });

  test("F27 gives up when the time is over, and not before", async () => {
    using folder = new Folder();
    using shell = new Shell(folder.path);
    folder.write(lockText(now()));
    const { code, ms } = await shell.run("holdfast file acquire x --timeout 1 --json");
    expect(code).toBe(1);
    expect(ms).toBeGreaterThan(1000);
    expect(ms).toBeLessThan(6_000);
    expect(folder.names).toEqual(["x"]);
  });

  test("F28 takes a lock that is released meanwhile, with the time of the grant", async () => {
    using folder = new Folder();
    using shell = new Shell(folder.path);
    folder.write(lockText(now()));
    const startedAt = now();
    const acquiring = shell.json("holdfast file acquire x --timeout 10");
    await pause(2_000);
    const releasedAt = now();
    folder.remove();
    const acquired = await acquiring;
    expect(acquired).toMatchObject({ exit: 0, took_over: false });
    expect(acquired.timestamp).toBeGreaterThanOrEqual(releasedAt);
    expect(acquired.timestamp).toBeGreaterThanOrEqual(startedAt + 2);
    expect(folder.lock().timestamp).toBe(acquired.timestamp);
  });

  test("F29 takes over a lock that becomes stale meanwhile", async () => {
    using folder = new Folder();
    using shell = new Shell(folder.path);
    const staleAt = now() + 3;
    folder.write(lockText(staleAt - 3601));
    const acquired = await shell.json("holdfast file acquire x --timeout 10");
    expect(acquired).toMatchObject({ exit: 0, took_over: true });
    expect(acquired.timestamp).toBeGreaterThanOrEqual(staleAt);
    expect(acquired.timestamp).toBeLessThan(staleAt + 4);
  });

  test("F30 takes seconds with fractions, and nothing else, as a timeout", async () => {
    using folder = new Folder();
    using shell = new Shell(folder.path);
    folder.write(lockText(now()));
    for (const bad of ["abc", "-1", "''", "1e3", "1.2345", "9223372037", "0x1", "' 1'", ".5", "Infinity"]) {
      const { code, out, err } = await shell.run(`holdfast file acquire x --timeout ${bad}`);
      expect([bad, code, out, err]).toEqual([
        bad,
        2,
        "",
        expect.stringMatching(/^usage: holdfast file acquire [^\n]+\n$/),
      ]);
    }
    const { code, ms } = await shell.run("holdfast file acquire x --timeout 1.5");
    expect(code).toBe(1);
    expect(ms).toBeGreaterThan(1500);
    for (const bad of ["0.5", "0.999", "abc"])
      expect([bad, await shell.code(`holdfast file try x --stale ${bad}`)]).toEqual([bad, 2]);
    expect(await shell.code("holdfast file try x --stale=0.0")).toBe(1);
  });
});

describe.concurrent("wait", () => {
  test("F31 ends when the lock is gone, or its own time, and makes no file", async () => {
    using folder = new Folder();
    using shell = new Shell(folder.path);
    folder.write(lockText(now(), 7));
    expect(await shell.json("holdfast file wait x --timeout 1")).toMatchObject({ exit: 1, error: "timeout", pid: 7 });
    const waiting = shell.json("holdfast file wait x");
    await pause(500);
    folder.remove();
    expect(await waiting).toEqual({ exit: 0, ok: true, path: "x", waited_s: expect.any(Number) });
    expect(await shell.run("holdfast file wait x")).toMatchObject({ code: 0, out: "free x\n", err: "" });
    expect(folder.names).toEqual([]);
  });

  test("F32 takes a stale lock as free, and leaves it", async () => {
    using folder = new Folder();
    using shell = new Shell(folder.path);
    const text = lockText(now() - OLD_S);
    folder.write(text);
    expect(await shell.code("holdfast file wait x --timeout 1")).toBe(0);
    expect(await shell.code("holdfast file wait x --timeout 0 --stale 0")).toBe(1);
    expect(folder.text()).toBe(text);
  });
});

describe.concurrent("a guard left by a crash", () => {
  test("F42 is removed if it is old", async () => {
    using folder = new Folder();
    using shell = new Shell(folder.path);
    folder.write(lockText(now() - OLD_S));
    folder.write(lockText(now() - OLD_S), { name: GUARD, ageS: OLD_S });
    expect(await shell.json("holdfast file try x")).toMatchObject({ exit: 0, took_over: true });
    expect(folder.names).toEqual(["x"]);
  });

  test("does not stop one who finds the path free", async () => {
    using folder = new Folder();
    using shell = new Shell(folder.path);
    folder.write("", { name: GUARD });
    expect(await shell.code("holdfast file try x")).toBe(0);
    expect(folder.names).toEqual([GUARD, "x"]);
  });

  test("ends an acquire by its own timeout", async () => {
    using folder = new Folder();
    using shell = new Shell(folder.path);
    folder.write(lockText(now() - OLD_S));
    folder.write("", { name: GUARD });
    const { code, ms } = await shell.run("holdfast file acquire x --timeout 1");
    expect(code).toBe(1);
    expect(ms).toBeLessThan(8_000);
  });

  test("that is not a file is refused and left alone", async () => {
    using folder = new Folder();
    using shell = new Shell(folder.path);
    await shell.run("holdfast file try x");
    await shell.run(`mkdir ${GUARD}`);
    expect(await shell.run("holdfast file release x")).toMatchObject({ code: 3, err: expect.stringContaining(GUARD) });
    expect(folder.names).toEqual([GUARD, "x"]);
  });
});
