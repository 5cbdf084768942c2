/** Case F44 at every point: a process that ends between any two system calls wedges nothing. */
import { readFileSync } from "node:fs";
import { afterEach, describe, expect, test, vi } from "vitest";
import { FileLock, parseLockText } from "../../src/lockfile/index.ts";
import { Folder, lockText, now, OLD_S } from "./support/folder.ts";
import { interpose } from "./support/interpose.ts";

const GUARD = ".x.hf-guard";

interface Story {
  readonly name: string;
  readonly prepare: (folder: Folder) => void | Promise<void>;
  readonly run: (lock: FileLock) => Promise<unknown>;
}

const STORIES: readonly Story[] = [
  { name: "taking a free path", prepare: () => {}, run: (lock) => lock.tryAcquire() },
  {
    name: "taking over a stale lock",
    prepare: (folder) => folder.write(lockText(now() - OLD_S)),
    run: (lock) => lock.tryAcquire(),
  },
  {
    name: "breaking an old guard to take over an empty file",
    prepare: (folder) => {
      folder.write("", { ageS: OLD_S });
      folder.write("", { name: GUARD, ageS: 60 });
    },
    run: (lock) => lock.tryAcquire(),
  },
  {
    name: "releasing",
    prepare: (folder) => folder.write(lockText(now(), 77)),
    run: (lock) => lock.release(),
  },
  {
    name: "refreshing",
    prepare: (folder) => folder.write(lockText(now(), 77)),
    run: (lock) => lock.refresh(),
  },
  {
    name: "cleaning",
    prepare: (folder) => {
      folder.write(lockText(now() - OLD_S));
      folder.write("", { name: ".x.0123456789abcdef.hf-old", ageS: OLD_S });
    },
    run: (lock) => lock.clean(),
  },
];

class Crash extends Error {}

/** Runs up to the call of this number and no further: after it, no call of the "process" has any effect. Gives the calls made. */
async function runUntil(crashAt: number, run: () => Promise<unknown>): Promise<number> {
  let calls = 0;
  using _ = interpose(() => {
    calls += 1;
    if (calls > crashAt) throw new Crash();
  });
  try {
    await run();
  } catch (error) {
    if (!(error instanceof Crash)) throw error;
  }
  return calls;
}

afterEach(() => {
  vi.useRealTimers();
});

describe("a crash at any call while", () => {
  test.each(STORIES)("$name leaves a complete lock or none, and no lasting obstacle", async ({ prepare, run }) => {
    const perform = (folder: Folder) => run(new FileLock(folder.file(), { ownerPid: 77 }));
    let crashAt = 0;
    for (let isComplete = false; !isComplete; crashAt += 1) {
      using folder = new Folder();
      await prepare(folder);
      const before = folder.names.includes("x") ? folder.text() : "";
      isComplete = (await runUntil(crashAt, () => perform(folder))) <= crashAt;

      const text = folder.names.includes("x") ? readFileSync(folder.file()) : undefined;
      if (text && text.toString() !== before) expect(parseLockText(text).kind).toBe("well-formed");

      vi.useFakeTimers({ toFake: ["Date"], now: Date.now() + 15_000 });
      await new FileLock(folder.file(), { stale: 2 }).tryAcquire();
      vi.setSystemTime(Date.now() + 120_000);
      await new FileLock(folder.file(), { stale: 2 }).clean();
      expect(folder.names).toEqual([]);
      vi.useRealTimers();
    }
    expect(crashAt).toBeGreaterThan(9);
  });
});
