/** What other programs, file systems and signals do between two system calls. */
import { execFileSync } from "node:child_process";
import { constants, mkdirSync, renameSync, rmSync, symlinkSync, unlinkSync, writeFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { FileLock, HeldError, PathError } from "../../src/lockfile/index.ts";
import { Folder, lockText, now, OLD_S } from "./support/folder.ts";
import { type CallName, interpose, systemError } from "./support/interpose.ts";

const STARTED_AT = now();
const FRESH = (pid: number) => lockText(STARTED_AT, pid);

/** Does something just before the first call of this name that is about such a path. */
function once(name: CallName, part: string, action: () => void): Disposable {
  let isDone = false;
  return interpose((call, args) => {
    if (isDone || call !== name || !String(args[0]).endsWith(part)) return;
    isDone = true;
    action();
  });
}

const failure = (promise: Promise<unknown>) => promise.then(String, (error: unknown) => error);

describe("a program that knows no guard", () => {
  test("and replaces a stale lock just before it is moved away keeps its new lock", async () => {
    using folder = new Folder();
    folder.write(lockText(now() - OLD_S));
    using _ = once("renameSync", "/x", () => {
      unlinkSync(folder.file());
      writeFileSync(folder.file(), FRESH(7));
    });
    expect(await failure(new FileLock(folder.file()).tryAcquire())).toBeInstanceOf(HeldError);
    expect(folder.text()).toBe(FRESH(7));
    expect(folder.names).toEqual(["x"]);
  });

  test("and refreshes a stale lock in place just before it is moved away keeps it", async () => {
    using folder = new Folder();
    folder.write(lockText(now() - OLD_S, 7));
    using _ = once("renameSync", "/x", () => writeFileSync(folder.file(), FRESH(7)));
    expect(await failure(new FileLock(folder.file()).tryAcquire())).toBeInstanceOf(HeldError);
    expect(folder.text()).toBe(FRESH(7));
    expect(folder.names).toEqual(["x"]);
  });

  test("and takes the path while such a lock is moved away is not overwritten; a warning tells of two holders", async () => {
    using folder = new Folder();
    folder.write(lockText(now() - OLD_S));
    const warnings: string[] = [];
    using _ = interpose((call, [from, to]) => {
      if (call === "renameSync" && String(from) === folder.file()) writeFileSync(folder.file(), FRESH(7));
      if (call === "linkSync" && String(to) === folder.file()) writeFileSync(folder.file(), FRESH(8));
    });
    const lock = new FileLock(folder.file(), { onWarning: (message) => warnings.push(message) });
    expect(await failure(lock.tryAcquire())).toBeInstanceOf(HeldError);
    expect(folder.text()).toBe(FRESH(8));
    expect(warnings).toEqual([expect.stringContaining("two programs may hold the lock")]);
    expect(folder.names).toEqual(["x"]);
  });

  test("and replaces a lock just before its owner releases it keeps it", async () => {
    using folder = new Folder();
    const lock = new FileLock(folder.file());
    await lock.tryAcquire();
    using _ = once("renameSync", "/x", () => writeFileSync(folder.file(), FRESH(7)));
    expect(await failure(lock.release())).toMatchObject({ name: "NotOwnerError", holder: { pid: 7 } });
    expect(folder.text()).toBe(FRESH(7));
    expect(folder.names).toEqual(["x"]);
  });

  test("and replaces a lock just before its owner refreshes it keeps it", async () => {
    using folder = new Folder();
    const lock = new FileLock(folder.file());
    await lock.tryAcquire();
    let opens = 0;
    using _ = interpose((call, [path]) => {
      if (call !== "openSync" || path !== folder.file()) return;
      opens += 1;
      // The second one is the one for writing.
      if (opens !== 2) return;
      renameSync(folder.file(), folder.file("aside"));
      writeFileSync(folder.file(), FRESH(7));
    });
    expect(await failure(lock.refresh())).toMatchObject({ name: "NotOwnerError", holder: { pid: 7 } });
    expect(folder.text()).toBe(FRESH(7));
  });

  test("and removes a stale lock just before it is moved away leaves the path free for all", async () => {
    using folder = new Folder();
    folder.write(lockText(now() - OLD_S));
    using _ = once("renameSync", "/x", () => unlinkSync(folder.file()));
    expect(await new FileLock(folder.file()).tryAcquire()).toMatchObject({ tookOver: false });
    expect(folder.names).toEqual(["x"]);
  });

  test("and puts a link or a directory where the lock was is not followed", async () => {
    for (const put of [(path: string) => symlinkSync("target", path), (path: string) => mkdirSync(path)]) {
      using folder = new Folder();
      folder.write(lockText(now() - OLD_S));
      using _ = once("renameSync", "/x", () => {
        unlinkSync(folder.file());
        put(folder.file());
      });
      expect(await failure(new FileLock(folder.file()).tryAcquire())).toBeInstanceOf(PathError);
      expect(folder.names).toEqual(["x"]);
    }
  });

  test("and puts a link there between looking and opening is not followed", async () => {
    using folder = new Folder();
    folder.write(FRESH(7));
    folder.write("secret", { name: "target" });
    using _ = once("openSync", "/x", () => {
      unlinkSync(folder.file());
      symlinkSync("target", folder.file());
    });
    expect(await failure(new FileLock(folder.file()).status())).toBeInstanceOf(PathError);
  });

  test("and puts a pipe there between looking and opening stops nobody", async () => {
    using folder = new Folder();
    folder.write(FRESH(7));
    using _ = once("openSync", "/x", () => {
      unlinkSync(folder.file());
      execFileSync("mkfifo", [folder.file()]);
    });
    expect(await failure(new FileLock(folder.file()).status())).toBeInstanceOf(PathError);
  });

  test("and takes the path while the own text is written has it", async () => {
    using folder = new Folder();
    using _ = once("linkSync", ".hf-new", () => writeFileSync(folder.file(), FRESH(7)));
    expect(await failure(new FileLock(folder.file()).tryAcquire())).toMatchObject({ holder: { pid: 7 } });
    expect(folder.names).toEqual(["x"]);
  });
});

describe("a guard", () => {
  const GUARD = ".x.hf-guard";

  test("that was broken and taken again, while this process was about to break it, stays with its new owner", async () => {
    using folder = new Folder();
    folder.write(lockText(now() - OLD_S));
    folder.write("", { name: GUARD, ageS: 60 });
    const fresh = lockText(now(), 8);
    // Twice: before this process claims the right to break it, and before it moves it.
    for (const call of ["linkSync", "renameSync"] as const) {
      using _ = once(call, GUARD, () => {
        rmSync(folder.file(GUARD));
        writeFileSync(folder.file(GUARD), fresh);
      });
      const error = await failure(new FileLock(folder.file()).acquire({ timeout: 0.05 }));
      expect(error).toMatchObject({ name: "TimeoutError" });
      expect(folder.text(GUARD)).toBe(fresh);
      expect(folder.names).toEqual([GUARD, "x"]);
      folder.write("", { name: GUARD, ageS: 60 });
    }
    expect(await new FileLock(folder.file()).tryAcquire()).toMatchObject({ tookOver: true });
    expect(folder.names).toEqual(["x"]);
  });

  test("from the future counts as left by a crash", async () => {
    using folder = new Folder();
    folder.write(lockText(now() - OLD_S));
    folder.write("", { name: GUARD, ageS: -60 });
    expect(await new FileLock(folder.file()).tryAcquire()).toMatchObject({ tookOver: true });
  });

  test("that another took from this process is not removed by this process", async () => {
    using folder = new Folder();
    const lock = new FileLock(folder.file());
    await lock.tryAcquire();
    using _ = once("renameSync", "/x", () => {
      renameSync(folder.file(GUARD), folder.file("aside"));
      writeFileSync(folder.file(GUARD), "another's");
    });
    await lock.release();
    expect(folder.text(GUARD)).toBe("another's");
  });
});

test("no file is opened through a link at the end of its path", async () => {
  using folder = new Folder();
  folder.write(lockText(now() - OLD_S));
  folder.write("", { name: ".x.hf-guard", ageS: 60 });
  const flags: number[] = [];
  using _ = interpose((call, [path, flag]) => {
    if (call === "openSync" && !String(path).endsWith("/")) flags.push(Number(flag));
  });
  const lock = new FileLock(folder.file());
  await lock.tryAcquire();
  await lock.refresh();
  await lock.release();
  expect(flags.length).toBeGreaterThan(10);
  expect(flags.filter((flag) => (flag & constants.O_NOFOLLOW) === 0)).toEqual([]);
});

describe("the system", () => {
  test("may interrupt any call: it is made again", async () => {
    using folder = new Folder();
    folder.write(lockText(now() - OLD_S));
    const interrupted = new Set<string>();
    let isSecond = false;
    using _ = interpose((call, args) => {
      isSecond = !isSecond;
      // Linux has closed the file even when it says so.
      if (!isSecond || call === "closeSync" || call === "readdirSync") return;
      interrupted.add(`${call} ${args.length}`);
      throw systemError("EINTR", -4);
    });
    const lock = new FileLock(folder.file());
    await lock.tryAcquire();
    await lock.refresh();
    await lock.release();
    expect(interrupted.size).toBeGreaterThan(8);
    expect(folder.names).toEqual([]);
  });

  test("may have no hard links: the path is created directly, or found taken", async () => {
    using folder = new Folder();
    using _ = interpose((call) => {
      if (call === "linkSync") throw systemError("EPERM", -1);
    });
    const lock = new FileLock(folder.file(), { tag: "t" });
    await lock.tryAcquire();
    expect(folder.lock()).toMatchObject({ tag: "t" });
    expect(await failure(new FileLock(folder.file()).tryAcquire())).toBeInstanceOf(HeldError);
    await lock.release();
    folder.write(lockText(now() - OLD_S));
    folder.write("", { name: ".x.hf-guard", ageS: 60 });
    expect(await lock.tryAcquire()).toMatchObject({ tookOver: true });
    await lock.release();
    expect(folder.names).toEqual([]);
  });

  test("may fail to write where there are no hard links: the half-made lock is removed", async () => {
    using folder = new Folder();
    let writes = 0;
    using _ = interpose((call) => {
      if (call === "linkSync") throw systemError("EPERM", -1);
      if (call === "writeSync" && ++writes === 2) throw systemError("ENOSPC", -28);
    });
    expect(await failure(new FileLock(folder.file()).tryAcquire())).toMatchObject({ kind: "io", code: "ENOSPC" });
    expect(folder.names).toEqual([]);
  });

  test("may fail after the lock was made: it does not stay", async () => {
    for (const failing of ["unlinkSync", "fsyncSync"] as const) {
      using folder = new Folder();
      let [isLinked, isFailed] = [false, false];
      using _ = interpose((call) => {
        isLinked ||= call === "linkSync";
        if (!isLinked || isFailed || call !== failing) return;
        isFailed = true;
        throw systemError("EIO", -5);
      });
      expect(await failure(new FileLock(folder.file()).tryAcquire())).toMatchObject({ kind: "io", code: "EIO" });
      expect(folder.names).not.toContain("x");
    }
  });

  test("may sync no directories", async () => {
    using folder = new Folder();
    using _ = interpose((call, [path]) => {
      if (call === "openSync" && String(path).endsWith("/")) throw systemError("EACCES", -13);
    });
    const lock = new FileLock(folder.file());
    await lock.tryAcquire();
    expect(await lock.release()).toMatchObject({ released: true });
  });

  test("may let the text be swept away before it is linked: it is written again", async () => {
    using folder = new Folder();
    using _ = once("linkSync", ".hf-new", () => {
      for (const name of folder.names) rmSync(folder.file(name));
    });
    await new FileLock(folder.file()).tryAcquire();
    expect(folder.names).toEqual(["x"]);
  });

  test("has the text and the directory on disk before the lock counts as acquired", async () => {
    using folder = new Folder();
    const calls: string[] = [];
    using _ = interpose((call) => {
      if (["writeSync", "fsyncSync", "linkSync", "unlinkSync", "renameSync"].includes(call)) calls.push(call);
    });
    const lock = new FileLock(folder.file());
    await lock.tryAcquire();
    expect(calls).toEqual(["writeSync", "fsyncSync", "linkSync", "unlinkSync", "fsyncSync"]);
    calls.length = 0;
    await lock.refresh();
    expect(calls).toEqual(["writeSync", "writeSync", "fsyncSync", "unlinkSync"]);
    calls.length = 0;
    await lock.release();
    expect(calls).toEqual(["writeSync", "renameSync", "unlinkSync", "fsyncSync", "unlinkSync"]);
  });
});
