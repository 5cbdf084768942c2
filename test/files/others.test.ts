/** Living with programs that know only the published protocol: shell scripts, and tools in other languages. */
import { renameSync, writeFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { Folder, lockText, now } from "./support/folder.ts";
import { readLikeTheSeed, SeedLock } from "./support/seed.ts";
import { Shell } from "./support/shell.ts";

/** A lock in plain shell: exclusive creation by `set -C`, and a reader of its fields. */
const PLAIN = `
take() { (set -C; printf 'pid=%s\\ntimestamp=%s\\ntag=%s\\n' $$ "$(date +%s)" "$2" > "$1") 2>/dev/null; }
drop() { rm "$1"; }
field() { while IFS= read -r line; do case $line in "$2="*) echo "\${line#*=}";; esac; done < "$1"; }
`;

describe.concurrent("a shell script", () => {
  test("reads and respects our locks, and we respect its own", async () => {
    using folder = new Folder();
    using shell = new Shell(folder.path);
    using script = new Shell(folder.path);
    await script.run(PLAIN);
    expect(await shell.code("holdfast file try x --tag 'a=b c'")).toBe(0);
    expect(await script.code("take x mine")).not.toBe(0);
    expect((await script.run("field x pid; field x tag")).out).toBe(`${shell.pid}\na=b c\n`);
    expect(await shell.code("holdfast file release x")).toBe(0);
    expect(await script.code("take x mine")).toBe(0);
    expect(await shell.json("holdfast file try x")).toMatchObject({ exit: 1, pid: script.pid, tag: "mine" });
    expect(await shell.json("holdfast file status x")).toMatchObject({ state: "held", running: true });
    expect(await script.code("drop x")).toBe(0);
    expect(await shell.code("holdfast file try x")).toBe(0);
  });

  test("that removes our lock makes us lose it; refresh says so and release does nothing", async () => {
    using folder = new Folder();
    using shell = new Shell(folder.path);
    await shell.run(`${PLAIN}holdfast file try x; drop x`);
    expect(await shell.json("holdfast file refresh x")).toMatchObject({ exit: 1, error: "free" });
    expect(await shell.run("holdfast file release x")).toMatchObject({ code: 0, out: "free x\n" });
  });

  test("owns what it made itself: holdfast releases it from that shell", async () => {
    using folder = new Folder();
    using shell = new Shell(folder.path);
    using other = new Shell(folder.path);
    await shell.run(`set -C; printf 'pid=%s\\ntimestamp=%s\\n' $$ $(date +%s) > x; set +C`);
    expect(await shell.code("holdfast file try x")).toBe(1);
    expect(await other.code("holdfast file release x")).toBe(1);
    expect(await shell.code("holdfast file refresh x")).toBe(0);
    expect(await shell.code("holdfast file release x")).toBe(0);
  });

  test("that writes its lock line by line holds it from the first byte", async () => {
    using folder = new Folder();
    using shell = new Shell(folder.path);
    await shell.run('echo "pid=$$" > x');
    expect(await shell.json("holdfast file try x")).toMatchObject({ exit: 1, error: "held", pid: null });
    await shell.run('echo "timestamp=$(date +%s)" >> x');
    expect(await shell.json("holdfast file try x")).toMatchObject({ exit: 1, error: "held", pid: shell.pid });
    await shell.run('echo "tag=shell-script" >> x');
    expect(readLikeTheSeed(folder.file())).toEqual({
      pid: String(shell.pid),
      timestamp: expect.stringMatching(/^\d+$/),
      tag: "shell-script",
    });
  });
});

describe.concurrent("a tool that follows the published protocol", () => {
  test("finds our lock held and reads it; we find its lock held", async () => {
    using folder = new Folder();
    using shell = new Shell(folder.path);
    const tool = new SeedLock(folder.file());
    await shell.run("holdfast file try x --tag t");
    expect(tool.tryAcquire()).toBe(false);
    const { pid, timestamp, host, nonce } = folder.lock();
    const read = { pid: String(pid), timestamp: String(timestamp), tag: "t", host, nonce };
    expect(readLikeTheSeed(folder.file())).toEqual(read);
    await shell.run("holdfast file release x");

    expect(tool.tryAcquire()).toBe(true);
    expect(await shell.json("holdfast file try x")).toMatchObject({ exit: 1, pid: process.pid });
    expect(await shell.code("holdfast file release x")).toBe(1);
    expect(await shell.code("holdfast file release x --force")).toBe(0);
    expect(folder.names).toEqual([]);
  });

  test("may release our lock, as anyone may who can write the directory", async () => {
    using folder = new Folder();
    using shell = new Shell(folder.path);
    await shell.run("holdfast file try x");
    new SeedLock(folder.file()).release();
    expect(await shell.code("holdfast file refresh x")).toBe(1);
    expect(await shell.run("holdfast file release x")).toMatchObject({ code: 0, out: "free x\n" });
  });

  test("and renames a private file into place is read as it wrote", async () => {
    using folder = new Folder();
    using shell = new Shell(folder.path);
    const timestamp = now();
    writeFileSync(folder.file("x.1.tmp"), lockText(timestamp, process.pid, "tag=t\r\n"), { mode: 0o600 });
    renameSync(folder.file("x.1.tmp"), folder.file());
    const held = { exit: 1, state: "held", pid: process.pid, timestamp, tag: "t", running: true };
    expect(await shell.json("holdfast file status x")).toMatchObject(held);
  });

  test("or the HTTP service wrote is read with its extra lines ignored", async () => {
    using folder = new Folder();
    using shell = new Shell(folder.path);
    folder.write(lockText(now(), 42, `tag=deploy\nfence=18446744073709551615\nexpires=${now() + 3600}\n`));
    expect(await shell.json("holdfast file status x")).toMatchObject({
      exit: 1,
      state: "held",
      pid: 42,
      tag: "deploy",
    });
  });
});
