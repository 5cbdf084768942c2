/** Cases F33 to F41, F45 and F46: refreshing, looking, cleaning, and arguments that make no sense. */
import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { setTimeout as pause } from "node:timers/promises";
import { describe, expect, test } from "vitest";
import { Folder, lockText, now, OLD_S } from "./support/folder.ts";
import { Shell } from "./support/shell.ts";

describe.concurrent("refresh", () => {
  test("F33 gives the same file a newer time", async () => {
    using folder = new Folder();
    using shell = new Shell(folder.path);
    await shell.run("holdfast file try x --tag 'a rather long tag'");
    const [before, inode] = [folder.lock(), folder.inode()];
    await pause(2_000);
    const refreshed = await shell.json("holdfast file refresh x");
    expect(refreshed).toEqual({ exit: 0, ok: true, path: "x", timestamp: expect.any(Number) });
    expect(refreshed.timestamp).toBeGreaterThanOrEqual(before.timestamp + 2);
    expect(folder.lock()).toEqual({ ...before, timestamp: refreshed.timestamp });
    expect(folder.inode()).toBe(inode);
    expect(await shell.run("holdfast file refresh x --tag b")).toMatchObject({ code: 0, out: "refreshed x\n" });
    expect(folder.lock()).toMatchObject({ nonce: before.nonce, tag: "b" });
    expect(folder.text()).toMatch(/nonce=[0-9a-f]{16}\n$/);
    expect(folder.names).toEqual(["x"]);
  });

  test("F34 creates nothing, and changes no lock of another shell", async () => {
    using folder = new Folder();
    using shell = new Shell(folder.path);
    expect(await shell.run("holdfast file refresh x")).toMatchObject({ code: 1, out: "", err: "free x\n" });
    expect(await shell.json("holdfast file refresh x")).toEqual({ exit: 1, ok: false, error: "free", path: "x" });
    expect(folder.names).toEqual([]);
    folder.write(lockText(now() - 5, 7));
    expect((await shell.run("holdfast file refresh x")).err).toMatch(/^not owner x pid=7 since=\d+\n$/);
    expect(await shell.json("holdfast file refresh x")).toMatchObject({ exit: 1, error: "not_owner", pid: 7 });
    expect(folder.text()).toBe(lockText(folder.lock().timestamp, 7));
  });

  test("F35 renews a lock past its stale time that nobody took over", async () => {
    using folder = new Folder();
    using shell = new Shell(folder.path);
    folder.write(lockText(now() - OLD_S, shell.pid));
    expect(await shell.code("holdfast file refresh x")).toBe(0);
    expect(await shell.json("holdfast file status x")).toMatchObject({ state: "held" });
    expect(folder.text()).toBe(lockText(folder.lock().timestamp, shell.pid));
  });

  test("F36 tells an owner that was robbed, and does the new holder no harm", async () => {
    using folder = new Folder();
    using shell = new Shell(folder.path);
    using other = new Shell(folder.path);
    folder.write(lockText(now() - OLD_S, shell.pid));
    expect(await other.code("holdfast file try x")).toBe(0);
    const before = folder.text();
    expect(await shell.code("holdfast file refresh x")).toBe(1);
    expect(await shell.code("holdfast file release x")).toBe(1);
    expect(folder.text()).toBe(before);
  });
});

describe.concurrent("status", () => {
  test("F37 tells free, held and stale", async () => {
    using folder = new Folder();
    using shell = new Shell(folder.path);
    expect(await shell.run("holdfast file status x")).toMatchObject({ code: 0, out: "free x\n", err: "" });
    const nobody = { pid: null, timestamp: null, tag: null, host: null, age_s: null, running: null };
    const free = { exit: 0, ok: true, path: "x", locked: false, state: "free", stale: false, ...nobody };
    expect(await shell.json("holdfast file status x")).toEqual(free);
    await shell.run("holdfast file try x --tag t");
    const { timestamp, host } = folder.lock();
    const held = await shell.run("holdfast file status x");
    expect(held).toMatchObject({ code: 1, err: "" });
    const lines = [
      `held x`,
      `pid: ${shell.pid}`,
      `timestamp: ${timestamp}`,
      "age: \\d+",
      "tag: t",
      `host: ${host}`,
      "running: yes",
    ];
    expect(held.out).toMatch(new RegExp(`^${lines.join("\n")}\n$`));
    folder.write(lockText(now() - OLD_S, 4_294_967_295));
    expect((await shell.run("holdfast file status x")).out).toMatch(/^stale x\npid: 4294967295\n.*\nrunning: no\n$/s);
    const stale = { exit: 1, locked: true, state: "stale", stale: true, running: false };
    expect(await shell.json("holdfast file status x")).toMatchObject(stale);
    expect(await shell.json("holdfast file status x --stale 0")).toMatchObject({ state: "held", stale: false });
  });

  test("F38 escapes what needs it in JSON, and lets no control character out in text", async () => {
    using folder = new Folder();
    using shell = new Shell(folder.path);
    const tag = 'say "hi" \\ x';
    await shell.run(`holdfast file try x --tag '${tag}'`);
    expect(await shell.json("holdfast file status x")).toMatchObject({ exit: 1, tag });
    folder.write(lockText(now(), 0, "tag=\x1b[31mred\u009b1m\n"));
    const { out, err } = await shell.run("holdfast file status x; holdfast file try x");
    expect(`${out}${err}`.replaceAll("\n", "")).not.toMatch(/\p{Cc}/u);
    expect(out).toContain("tag: \\u{1b}[31mred\\u{9b}1m\n");
    expect(out).toContain("running: unknown\n");
    expect(await shell.json("holdfast file status x")).toMatchObject({ tag: "\x1b[31mred\u009b1m" });
  });
});

describe.concurrent("clean", () => {
  test("F40 removes a stale lock and leaves a live one", async () => {
    using folder = new Folder();
    using shell = new Shell(folder.path);
    expect(await shell.run("holdfast file clean x")).toMatchObject({ code: 0, out: "nothing x\n" });
    folder.write(lockText(now() - OLD_S));
    expect(await shell.run("holdfast file clean x")).toMatchObject({ code: 0, out: "cleaned x\n" });
    expect(folder.names).toEqual([]);
    const live = lockText(now(), 7);
    folder.write(live);
    expect(await shell.run("holdfast file clean x")).toMatchObject({
      code: 1,
      err: expect.stringMatching(/^held x pid=7 /),
    });
    expect(folder.text()).toBe(live);
  });

  test("F41 removes what crashed processes left beside the lock, and nothing else", async () => {
    using folder = new Folder();
    using shell = new Shell(folder.path);
    const digits = "0123456789abcdef";
    const kept = [
      `.x.${digits.replace("0", "1")}.hf-new`,
      `.y.${digits}.hf-new`,
      `.x.${digits.slice(1)}.hf-new`,
      `.x.${digits}.hf-newer`,
      `.x.${digits.toUpperCase()}.hf-old`,
      "x.1.tmp",
    ];
    for (const name of kept) folder.write("", { name, ageS: name === kept[0] ? 50 : OLD_S });
    folder.write("", { name: `.x.${digits}.hf-new`, ageS: OLD_S });
    folder.write("", { name: `.x.${digits}.hf-old`, ageS: 61 });
    expect(await shell.json("holdfast file clean x")).toEqual({
      exit: 0,
      ok: true,
      path: "x",
      cleaned: true,
      leftovers: 2,
    });
    expect(folder.names).toEqual(kept.sort());
  });
});

describe.concurrent("the arguments", () => {
  test.each([
    ["", "holdfast file try|acquire|release|refresh|status|wait|clean PATH [flags] (no command given)"],
    ["try", "holdfast file try PATH [--stale S] [--tag T] [--json] [--quiet] (PATH is missing)"],
    ["bogus x", "holdfast file try|acquire|release|refresh|status|wait|clean PATH [flags] (unknown command bogus)"],
    ["try x y", "holdfast file try PATH [--stale S] [--tag T] [--json] [--quiet] (too many arguments, 2 instead of 1)"],
    ["try x --force", "holdfast file try PATH [--stale S] [--tag T] [--json] [--quiet] (unknown flag --force)"],
    ["try x --nope", "holdfast file try PATH [--stale S] [--tag T] [--json] [--quiet] (unknown flag --nope)"],
    ["release x --tag t", "holdfast file release PATH [--force] [--json] [--quiet] (unknown flag --tag)"],
    ["clean x --force", "holdfast file clean PATH [--stale S] [--json] [--quiet] (unknown flag --force)"],
    ["refresh x --tag", "holdfast file refresh PATH [--tag T] [--json] [--quiet] (--tag needs a value)"],
    ["status x --json=yes -q=1", "holdfast file status PATH [--stale S] [--json] [--quiet] (--json takes no value)"],
  ])("F45 %j is one usage line and exit code 2", async (args, line) => {
    using folder = new Folder();
    using shell = new Shell(folder.path);
    const isQuietOrJson = /--json|-q/.test(args);
    expect(await shell.run(`holdfast file ${args}`)).toMatchObject({
      code: 2,
      out: "",
      err: isQuietOrJson ? "" : `usage: ${line}\n`,
    });
    expect(folder.names).toEqual([]);
  });

  test("F46 stand before or after the path; --quiet prints nothing, in errors too", async () => {
    using folder = new Folder();
    using shell = new Shell(folder.path);
    const first = await shell.run("holdfast file try --json --tag=a --tag b x");
    expect(first).toMatchObject({ code: 0, err: "" });
    expect(JSON.parse(first.out)).toEqual({
      ok: true,
      path: "x",
      pid: shell.pid,
      timestamp: expect.any(Number),
      tag: "b",
      nonce: folder.lock().nonce,
      waited_s: expect.any(Number),
      took_over: false,
    });
    for (const [args, code] of [
      ["try x --json --quiet", 1],
      ["status -q x", 1],
      ["try x --nope -q", 2],
      ["try '' --quiet", 3],
      ["release x -q", 0],
    ]) {
      expect(await shell.run(`holdfast file ${args}`)).toMatchObject({ code, out: "", err: "" });
    }
    const usage = { exit: 2, ok: false, error: "usage", message: "unknown flag --nope" };
    expect(await shell.json("holdfast file try x --nope")).toEqual(usage);
    expect(await shell.json("holdfast file bogus x")).toMatchObject({ error: "usage" });
  });

  test("a reader that is gone changes no exit code", async () => {
    using folder = new Folder();
    using shell = new Shell(folder.path);
    expect((await shell.run("(holdfast file try x; echo $? >&2) | true")).err).toBe("0\n");
  });

  test("--help anywhere prints usage, flags and examples, and fits a screen", async () => {
    using folder = new Folder();
    using shell = new Shell(folder.path);
    for (const command of ["try", "acquire", "release", "refresh", "status", "wait", "clean"]) {
      const { code, out, err } = await shell.run(`holdfast file ${command} --nope x y --help`);
      expect([code, err]).toEqual([0, ""]);
      expect(out).toMatch(
        new RegExp(`^usage: holdfast file ${command} PATH .*\n\n.*\n\nExamples:\n  .*holdfast file ${command} `, "s"),
      );
    }
    for (const args of ["file --help", "file -h", "--help"]) {
      const { code, out } = await shell.run(`holdfast ${args}`);
      expect(code).toBe(0);
      expect(out.split("\n").length).toBeLessThanOrEqual(24);
      expect(Math.max(...out.split("\n").map(({ length }) => length))).toBeLessThanOrEqual(100);
      expect(out).toContain("file");
    }
    expect(folder.names).toEqual([]);
  });
});

test("the command for files loads neither the server's code nor packages", () => {
  const trace = `import { registerHooks } from "node:module"; registerHooks({ load(url, context, next) { if (!url.startsWith("node:")) process.stderr.write(url + "\\n"); return next(url, context); } });`;
  const flags = ["--import", `data:text/javascript,${encodeURIComponent(trace)}`];
  const entry = new URL("../../dist/holdfast.js", import.meta.url).pathname;
  const script = `'${process.execPath}' ${flags.map((flag) => `'${flag}'`).join(" ")} '${entry}' file status /tmp/x 2>&1 >/dev/null`;
  const urls = execFileSync("sh", ["-c", `${script}; true`], { encoding: "utf8" })
    .trim()
    .split("\n");
  expect(urls[0]).toMatch(/\/dist\/holdfast\.js$/);
  for (const url of urls) {
    expect(url).toMatch(/\/dist\/(holdfast|command\/[\w-]+)\.js$/);
    expect(readFileSync(new URL(url), "utf8")).not.toMatch(/node_modules\/|startWorkerd|WebSocketServer/);
  }
});
