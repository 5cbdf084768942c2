/** The list of keys is whole wherever somebody looks, whatever happens to keys meanwhile. */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { compareKeys, entriesOf, type KeyEntry } from "../../../src/console/keys/entry.ts";
import {
  entriesIn,
  firstRowOf,
  hasPage,
  type Listing,
  NOTHING_KNOWN,
  pageOfRow,
  type Reply,
  withPage,
} from "../../../src/console/keys/listing.ts";

const PAGE = 5;

const entry = (key: string): KeyEntry => ({
  key,
  kind: "lock",
  limit: 1,
  holders: 0,
  waiters: 0,
  heldBy: [],
  queue: [],
  idleSeconds: 0,
  at: 0,
});

/** What the service answers while it has these keys. */
function ask(keys: readonly string[], cursor: string): Reply {
  const rest = keys.toSorted(compareKeys).filter((key) => compareKeys(key, cursor) > 0);
  const page = rest.slice(0, PAGE);
  return { entries: page.map(entry), next: rest.length > page.length ? page.at(-1) : undefined };
}

/** Asks for the pages from one row to another, as the page does. */
function look(listing: Listing, keys: readonly string[], first: number, last: number): Listing {
  let seen = listing;
  let index = pageOfRow(seen, first);
  do {
    seen = withPage(seen, index, ask(keys, seen.pages[index]?.cursor ?? seen.more ?? ""));
    index += 1;
  } while (hasPage(seen, index) && firstRowOf(seen, index) <= last);
  return seen;
}

const keysOf = (listing: Listing) => entriesIn(listing).map(({ key }) => key);

describe("the known keys", () => {
  it("are those of the service after everything has been looked at", () => {
    const keys = Array.from({ length: 23 }, (_, index) => `k${String(index).padStart(2, "0")}`);
    expect(keysOf(look(NOTHING_KNOWN, keys, 0, 100))).toEqual(keys);
  });

  it("begin with one page, and go on where somebody scrolls", () => {
    const keys = ["a", "b", "c", "d", "e", "f", "g"];
    const first = look(NOTHING_KNOWN, keys, 0, 3);
    expect([keysOf(first), first.more]).toEqual([["a", "b", "c", "d", "e"], "e"]);
    expect(keysOf(look(first, keys, 3, 6))).toEqual(keys);
  });

  it("have no gap after keys came into a page whose follower is not in view", () => {
    const known = look(NOTHING_KNOWN, ["b", "d", "f", "h", "j", "l", "n"], 0, 100);
    const after = look(known, ["a", "b", "c", "d", "f", "h", "j", "l", "n"], 0, 2);
    expect(keysOf(after)).toEqual(["a", "b", "c", "d", "f", "h", "j", "l", "n"]);
  });

  it("have no key twice after keys went from a page whose follower is not in view", () => {
    const known = look(NOTHING_KNOWN, ["a", "b", "c", "d", "e", "f", "g", "h"], 0, 100);
    expect(keysOf(look(known, ["a", "e", "f", "g", "h"], 0, 2))).toEqual(["a", "e", "f", "g", "h"]);
  });

  it("are none after the last one went", () => {
    const known = look(NOTHING_KNOWN, ["a", "b", "c", "d", "e", "f"], 0, 100);
    expect(look(known, [], 0, 0)).toEqual({ pages: [{ cursor: "", entries: [] }], more: undefined });
  });

  it("go on after a page that has none", () => {
    const empty = withPage(NOTHING_KNOWN, 0, { entries: [], next: "c" });
    const known = withPage(empty, 1, { entries: [entry("d")], next: undefined });
    expect(keysOf(known)).toEqual(["d"]);
    expect(pageOfRow(known, 0)).toBe(1);
    expect(withPage(known, 0, { entries: [], next: "c" })).toEqual({
      pages: [empty.pages[0], known.pages[1]],
      more: undefined,
    });
  });

  it("are in order and never twice, and are those of the service where somebody looks", () => {
    const names = fc.array(fc.stringMatching(/^[a-e]{1,3}$/), { maxLength: 40 }).map((keys) => [...new Set(keys)]);
    const looks = fc.array(fc.record({ keys: names, first: fc.nat(40), rows: fc.nat(12) }), { maxLength: 8 });
    fc.assert(
      fc.property(looks, (story) => {
        let listing = NOTHING_KNOWN;
        for (const { keys, first, rows } of story) {
          const from = Math.min(first, Math.max(0, entriesIn(listing).length - 1));
          const start = firstRowOf(listing, pageOfRow(listing, from));
          const before = start === 0 ? "" : (keysOf(listing)[start - 1] ?? "");
          listing = look(listing, keys, from, from + rows);
          const known = keysOf(listing);
          expect(known).toEqual([...new Set(known)].toSorted(compareKeys));
          const truth = keys.filter((key) => compareKeys(key, before) > 0).toSorted(compareKeys);
          expect(known.slice(start, from + rows + 1)).toEqual(truth.slice(0, from + rows + 1 - start));
        }
      }),
    );
  });
});

describe("a page of stats", () => {
  it("is one list in the order of the keys' bytes", () => {
    const keys = ["z", "ä", "\uffee", "😀", "a", "Z", "aa"];
    const page = {
      locks: keys.slice(0, 2).map((key) => ({ key, owner_conn_id: 1, waiters: 0 })),
      semaphores: keys.slice(2, 3).map((key) => ({ key, limit: 3, holders: 2, waiters: 0 })),
      idle_locks: keys.slice(3, 5).map((key) => ({ key, idle_s: 1 })),
      idle_semaphores: keys.slice(5).map((key) => ({ key, idle_s: 1 })),
    };
    const byBytes = keys.toSorted((a, b) => Buffer.compare(Buffer.from(a), Buffer.from(b)));
    expect(entriesOf(page, 0).map(({ key }) => key)).toEqual(byBytes);
  });

  it("tells a lock that is waited for but not held as free", () => {
    const page = { semaphores: [], idle_locks: [], idle_semaphores: [] };
    const [free] = entriesOf({ ...page, locks: [{ key: "k", owner_conn_id: 0, waiters: 1 }] }, 0);
    expect(free).toMatchObject({ holders: 0, waiters: 1, idleSeconds: undefined });
  });
});

describe("the order of keys", () => {
  it("is that of their UTF-8 bytes", () => {
    const text = fc.string({ unit: "binary" });
    fc.assert(
      fc.property(text, text, (a, b) => {
        expect(Math.sign(compareKeys(a, b))).toBe(Buffer.compare(Buffer.from(a), Buffer.from(b)));
      }),
    );
  });
});
