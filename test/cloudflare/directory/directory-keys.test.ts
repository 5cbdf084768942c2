import { reset } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { afterEach, describe, expect, it, vi } from "vitest";
import { allDirectories, byDirectory, directoryOfKey } from "../../../src/cloudflare/calls/directories.ts";
import { KeyObject } from "../../../src/cloudflare/key/key-object.ts";
import { gatherStats, type Stats, type StatsOptions } from "../../../src/reports/stats.ts";
import { replaceNext } from "../spies.ts";
import { askKey, command, grantedToken, keyStub, listed, service } from "../support.ts";

afterEach(async () => {
  vi.restoreAllMocks();
  await reset();
});

const bytes = new TextEncoder();

/** In the order of UTF-8 bytes, which is not that of UTF-16 code units: U+FFFD comes before any emoji. */
function inByteOrder(keys: readonly string[]): string[] {
  const hex = (key: string) => Array.from(bytes.encode(key), (byte) => byte.toString(16).padStart(2, "0")).join("");
  return keys.toSorted((a, b) => (hex(a) < hex(b) ? -1 : 1));
}

const ODD_KEYS = [
  "\u0000",
  "\u0000\u0000b",
  "a",
  "a\u0000",
  "a\u0000b",
  "a\u0000c",
  "a/b",
  "ab",
  "a\u007f",
  "aÿ",
  "a\ud7ff",
  "a\ue000",
  "a\ufffd",
  "a😀",
  "a😀\u0000x",
  "a😁",
  "a\u{10ffff}",
  "a\u{10ffff}".repeat(50),
  "b",
  "😀",
  "\u{10ffff}".repeat(64),
  `${"😀".repeat(63)}`,
  `${"k".repeat(256)}`,
];

async function hold(keys: readonly string[]): Promise<void> {
  await Promise.all(
    keys.map(async (key) => grantedToken(await askKey(keyStub(key), { type: "acquire", command: command() }))),
  );
  await listed(...keys);
}

/** The keys of a service, read page by page. */
async function pages(options: StatsOptions): Promise<string[][]> {
  const read: string[][] = [];
  let cursor: string | undefined;
  do {
    const stats: Stats = await gatherStats(service(), { ...options, ...(cursor !== undefined && { cursor }) });
    read.push(stats.locks.map(({ key }) => key));
    cursor = stats.next_cursor;
  } while (cursor !== undefined && read.length < 100);
  return read;
}

describe("the list of keys", () => {
  it("has every key once, in the order of bytes, whatever the size of a page", async () => {
    await hold(ODD_KEYS);
    const expected = inByteOrder(ODD_KEYS);
    for (const limit of [1, 2, 7, ODD_KEYS.length, 10_000]) {
      const read = await pages({ limit });
      expect(read.flat()).toEqual(expected);
      expect(read).toHaveLength(Math.ceil(ODD_KEYS.length / limit));
    }
  });

  it("has just the keys that begin with a prefix", async () => {
    await hold(ODD_KEYS);
    const prefixes = ["", "a", "a\u0000", "a\u0000b", "\u0000", "a😀", "a\u{10ffff}", "\u{10ffff}", "😀", "k", "nope"];
    for (const prefix of prefixes) {
      const expected = inByteOrder(ODD_KEYS.filter((key) => key.startsWith(prefix)));
      expect((await pages({ prefix, limit: 2 })).flat(), JSON.stringify(prefix)).toEqual(expected);
    }
  });

  it("goes on behind a cursor that is no key any more", async () => {
    await hold(["a", "c"]);
    expect((await gatherStats(service(), { cursor: "b" })).locks.map(({ key }) => key)).toEqual(["c"]);
    expect((await gatherStats(service(), { cursor: "b", prefix: "a" })).locks).toEqual([]);
  });

  it("fills a page although keys between have been forgotten, and ends when none follows", async () => {
    await hold(["a", "d", "e"]);
    for (const ghost of ["b", "c", "f", "g"]) await directoryOfKey(env, ghost).listKey({ key: ghost, fence: 1n });
    const page = await gatherStats(service(), { limit: 2 });
    expect(page.locks.map(({ key }) => key)).toEqual(["a", "d"]);
    expect(page.next_cursor).toBe("d");
    const last = await gatherStats(service(), { limit: 2, cursor: "d" });
    expect(last.locks.map(({ key }) => key)).toEqual(["e"]);
    expect("next_cursor" in last).toBe(false);
  });

  it("passes over what the asker may not see, and still fills its pages", async () => {
    const keys = Array.from({ length: 60 }, (_, index) => `key-${String(index).padStart(2, "0")}`);
    await hold(keys);
    const sees = (key: string) => key.endsWith("7");
    const read = await pages({ limit: 2, sees });
    expect(read).toEqual([
      ["key-07", "key-17"],
      ["key-27", "key-37"],
      ["key-47", "key-57"],
    ]);
    expect((await gatherStats(service(), { sees })).locks).toHaveLength(6);
  });

  it("of a shard has that shard's keys only, and groups agree with shards", async () => {
    await hold(ODD_KEYS);
    const listings = await Promise.all(
      allDirectories(env).map((directory) => directory.list({ prefix: "", after: "", limit: 100 })),
    );
    expect(inByteOrder(listings.flatMap(({ keys }) => keys))).toEqual(inByteOrder(ODD_KEYS));
    for (const { directory, keys } of byDirectory(env, ODD_KEYS)) {
      const { keys: listed } = await directory.list({ prefix: "", after: "", limit: 100 });
      expect(listed).toEqual(inByteOrder(keys));
    }
  });
});

describe("a key that is admitted while a report finds that nothing is stored of it", () => {
  it("stays listed, also if the clock has been set back since its entry was made", async () => {
    const key = "admitted meanwhile";
    const directory = directoryOfKey(env, key);
    // Its answer is lost.
    await directory.admitKey({ key, fence: 200n });
    replaceNext(KeyObject.prototype, "state", key, async () => {
      expect(await directoryOfKey(env, key).admitKey({ key, fence: 100n })).toEqual({ isAdmitted: true });
      return { status: "absent" } as const;
    });
    await directory.describe({ keys: [key], detail: false });
    expect(await directory.list({ prefix: key, after: "", limit: 1 })).toEqual({ keys: [key] });
    // Nobody has admitted it since the next look.
    await directory.describe({ keys: [key], detail: false });
    expect(await directory.list({ prefix: key, after: "", limit: 1 })).toEqual({ keys: [] });
  });
});
