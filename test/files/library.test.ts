/** The library as programs use it: results, errors, signals, ownership by nonce. */
import { chdir, cwd } from "node:process";
import { setTimeout as pause } from "node:timers/promises";
import { afterEach, describe, expect, test, vi } from "vitest";
import {
  FileLock,
  FileLockError,
  formatLockText,
  HeldError,
  IoError,
  NotOwnerError,
  PathError,
  parseLockText,
  TimeoutError,
} from "../../src/lockfile/index.ts";
import { Folder, lockText, now, OLD_S } from "./support/folder.ts";
import { interpose, systemError } from "./support/interpose.ts";

afterEach(() => {
  vi.useRealTimers();
});

const failure = (promise: Promise<unknown>) =>
  promise.then(
    () => undefined,
    (error: unknown) => error,
  );

describe("a FileLock", () => {
  test("is held from tryAcquire to release, and released once", async () => {
    using folder = new Folder();
    const lock = new FileLock(folder.file(), { tag: "nightly" });
    const acquired = await lock.tryAcquire();
    expect(acquired).toMatchObject({ pid: process.pid, tag: "nightly", tookOver: false });
    expect(folder.lock()).toMatchObject({ pid: process.pid, tag: "nightly", nonce: acquired.nonce });
    expect(await lock.status()).toMatchObject({ state: "held", isStale: false, holder: { nonce: acquired.nonce } });
    expect(await lock.release()).toMatchObject({ released: true, forced: false, holder: { tag: "nightly" } });
    expect(await lock.release()).toEqual({ released: false });
    expect(await lock.status()).toEqual({ state: "free" });
    expect(folder.names).toEqual([]);
  });

  test("is released at the end of its scope", async () => {
    using folder = new Folder();
    {
      await using lock = new FileLock(folder.file());
      await lock.acquire();
      expect(folder.names).toEqual(["x"]);
    }
    expect(folder.names).toEqual([]);
  });

  test("stays at its path when the process changes its directory", async () => {
    using folder = new Folder();
    const before = cwd();
    chdir(folder.path);
    const lock = new FileLock("x");
    await lock.tryAcquire().finally(() => chdir(before));
    expect(await lock.release()).toMatchObject({ released: true });
    expect(folder.names).toEqual([]);
  });

  test("belongs to the object that acquired it, and to no other of the same process", async () => {
    using folder = new Folder();
    const [lock, other] = [new FileLock(folder.file()), new FileLock(folder.file())];
    await lock.tryAcquire();
    expect(await failure(other.tryAcquire())).toBeInstanceOf(HeldError);
    expect(await other.release()).toEqual({ released: false });
    expect(await failure(other.refresh())).toBeInstanceOf(NotOwnerError);
    expect(await failure(lock.tryAcquire())).toMatchObject({ holder: { pid: process.pid } });
    expect(await lock.refresh({ tag: "later" })).toEqual({ timestamp: expect.any(Number) });
    expect(folder.lock()).toMatchObject({ tag: "later" });
    expect(await other.release({ force: true })).toMatchObject({ released: true, forced: true });
  });

  test("tells a holder that was robbed, once, and leaves the new holder alone", async () => {
    using folder = new Folder();
    const lock = new FileLock(folder.file());
    await lock.tryAcquire();
    folder.write(lockText(now(), process.pid, "nonce=00ff\n"));
    expect(await failure(lock.refresh())).toMatchObject({ name: "NotOwnerError", holder: { nonce: "00ff" } });
    expect(await failure(lock.release())).toMatchObject({ name: "NotOwnerError", holder: { nonce: "00ff" } });
    expect(await lock.release()).toEqual({ released: false });
    expect(folder.lock().nonce).toBe("00ff");
  });

  test("tells a holder whose file is gone", async () => {
    using folder = new Folder();
    const lock = new FileLock(folder.file());
    await lock.tryAcquire();
    folder.remove();
    expect(await failure(lock.refresh())).toMatchObject({ name: "NotOwnerError", holder: undefined });
    expect(await lock.release()).toEqual({ released: false });
    expect(folder.names).toEqual([]);
  });

  test("with an owner's process id is released and refreshed by another object with the same id", async () => {
    using folder = new Folder();
    const options = { ownerPid: 77 };
    await new FileLock(folder.file(), options).tryAcquire();
    await new FileLock(folder.file(), options).refresh();
    expect(await failure(new FileLock(folder.file(), { ownerPid: 78 }).release())).toBeInstanceOf(NotOwnerError);
    expect(await new FileLock(folder.file(), options).release()).toMatchObject({ released: true });
  });

  test("cleans what is stale, and says so of what is held", async () => {
    using folder = new Folder();
    const lock = new FileLock(folder.file());
    folder.write("", { ageS: OLD_S });
    expect(await lock.clean()).toEqual({ isRemoved: true, leftovers: 0 });
    folder.write("");
    expect(await failure(lock.clean())).toMatchObject({ name: "HeldError", holder: { pid: null } });
  });

  test("refuses options that make no sense", async () => {
    for (const options of [{ stale: 0.5 }, { stale: -1 }, { stale: Number.NaN }, { retryMs: 0 }, { ownerPid: -1 }])
      expect(() => new FileLock("x", options)).toThrow(RangeError);
    using folder = new Folder();
    expect(await failure(new FileLock(folder.file()).acquire({ timeout: -1 }))).toBeInstanceOf(RangeError);
    expect(folder.names).toEqual([]);
  });
});

describe("the age of a lock", () => {
  test.each([
    [3600, "held"],
    [3601, "stale"],
    [-86_400, "held"],
  ])("of %d seconds makes it %s by the text, whatever the file's own time", async (age, state) => {
    using folder = new Folder();
    vi.useFakeTimers({ toFake: ["Date"], now: 1_700_000_000_999 });
    folder.write(lockText(1_700_000_000 - age), { ageS: OLD_S });
    const lock = new FileLock(folder.file());
    expect(await lock.status()).toMatchObject({ state, holder: { age } });
    expect((await failure(lock.tryAcquire())) instanceof HeldError).toBe(state === "held");
  });

  test.each([
    [3600, false],
    [3601, true],
  ])("of %d seconds by its last change decides for a malformed file", async (ageS, isStale) => {
    using folder = new Folder();
    vi.useFakeTimers({ toFake: ["Date"], now: 1_700_000_000_000 });
    folder.write("pid=abc", { ageS });
    expect(await new FileLock(folder.file()).status()).toMatchObject({ state: "malformed", isStale });
  });
});

describe("acquire", () => {
  test("makes one attempt with a timeout of 0, and else waits for the whole timeout and not much longer", async () => {
    using folder = new Folder();
    folder.write(lockText(now(), 7));
    const lock = new FileLock(folder.file());
    const elapsed = async (timeout: number) => {
      const startedAt = performance.now();
      expect(await failure(lock.acquire({ timeout }))).toMatchObject({ name: "TimeoutError", holder: { pid: 7 } });
      return performance.now() - startedAt;
    };
    // A machine that is busy with something else makes one of them late, not all.
    expect(Math.min(await elapsed(0), await elapsed(0), await elapsed(0))).toBeLessThan(300);
    const times = await Promise.all([elapsed(1), pause(150).then(() => elapsed(1)), pause(300).then(() => elapsed(1))]);
    expect(Math.min(...times)).toBeGreaterThanOrEqual(999);
    expect(Math.min(...times)).toBeLessThan(1_400);
  });

  test("makes its last attempt at the deadline, not up to a retry before it", async () => {
    using folder = new Folder();
    folder.write(lockText(now()));
    const lock = new FileLock(folder.file(), { retryMs: 60_000 });
    const acquiring = lock.acquire({ timeout: 0.5 });
    await pause(200);
    folder.remove();
    expect(await acquiring).toMatchObject({ tookOver: false });
  });

  test("ends with the reason of its signal, at once, and leaves no file", async () => {
    using folder = new Folder();
    folder.write(lockText(now()));
    const controller = new AbortController();
    const acquiring = failure(new FileLock(folder.file(), { retryMs: 60_000 }).acquire({ signal: controller.signal }));
    controller.abort("enough");
    expect(await acquiring).toBe("enough");
    folder.remove();
    expect(await failure(new FileLock(folder.file()).acquire({ signal: controller.signal }))).toBe("enough");
    expect(folder.names).toEqual([]);
  });

  test("gives back a lock that was made while its signal aborted", async () => {
    using folder = new Folder();
    const controller = new AbortController();
    using _ = interpose((name) => {
      if (name === "linkSync") controller.abort("enough");
    });
    expect(await failure(new FileLock(folder.file()).acquire({ signal: controller.signal }))).toBe("enough");
    expect(folder.names).toEqual([]);
  });

  test("stops waiting for a guard when its signal aborts", async () => {
    using folder = new Folder();
    folder.write(lockText(now() - OLD_S));
    folder.write("", { name: ".x.hf-guard" });
    const signal = AbortSignal.timeout(100);
    expect(await failure(new FileLock(folder.file()).acquire({ signal }))).toBe(signal.reason);
    expect(folder.names).toEqual([".x.hf-guard", "x"]);
  });

  test("leaves no listener at its signal", async () => {
    using folder = new Folder();
    folder.write(lockText(now()));
    const { signal } = new AbortController();
    const [add, remove] = [vi.spyOn(signal, "addEventListener"), vi.spyOn(signal, "removeEventListener")];
    await failure(new FileLock(folder.file(), { retryMs: 5 }).acquire({ timeout: 2, signal }));
    expect(add.mock.calls.length).toBeGreaterThan(2);
    expect(remove).toHaveBeenCalledTimes(add.mock.calls.length);
  });
});

describe("an error", () => {
  test("is of its own class, with the path, and the system's error as its cause", async () => {
    using folder = new Folder();
    const missing = await failure(new FileLock(folder.file("no/x")).tryAcquire());
    expect(missing).toBeInstanceOf(PathError);
    expect(missing).toMatchObject({ kind: "path", code: "ENOENT", cause: { syscall: "stat" } });
    using _ = interpose((name) => {
      if (name === "fsyncSync") throw systemError("EIO", -5);
    });
    const failed = await failure(new FileLock(folder.file()).tryAcquire());
    expect(failed).toBeInstanceOf(IoError);
    expect(failed).toBeInstanceOf(FileLockError);
    expect(failed).toMatchObject({ kind: "io", code: "EIO", path: folder.file(), cause: { code: "EIO" } });
    expect(folder.names).toEqual([]);
  });

  test("of a NUL in the path is one of the path", async () => {
    expect(await failure(new FileLock("/tmp/a\0b").tryAcquire())).toBeInstanceOf(PathError);
  });

  test("of a timeout is a FileLockError, too", async () => {
    using folder = new Folder();
    folder.write("");
    const error = await failure(new FileLock(folder.file()).waitFree({ timeout: 0 }));
    expect(error).toBeInstanceOf(TimeoutError);
    expect(error).toBeInstanceOf(FileLockError);
  });
});

test("the codec comes with the library", () => {
  const bytes = new TextEncoder().encode(formatLockText({ pid: 1, timestamp: 2 }));
  expect(parseLockText(bytes)).toEqual({ kind: "well-formed", pid: 1, timestamp: 2 });
});
