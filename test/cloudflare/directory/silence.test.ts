/** Caps while a part of the directory is silent: stand-ins for its shards. */
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { SHARDS } from "../../../src/cloudflare/calls/directories.ts";
import { type CapRequest, Ledger, type ShardTally } from "../../../src/cloudflare/directory/ledger.ts";
import { configOf, type Env } from "../../../src/cloudflare/env.ts";
import { type KeyDirectory, KeyListing } from "../../../src/cloudflare/key/key-listing.ts";
import { SessionListing } from "../../../src/cloudflare/session-common/session-listing.ts";
import type { CommonParts } from "../../../src/cloudflare/session-common/session-parts.ts";
import { newSessionId } from "../../../src/core/session-names.ts";
import { fresh, never } from "../support.ts";

beforeEach(() => {
  vi.useFakeTimers();
});
afterEach(() => {
  vi.useRealTimers();
});

const SILENT = "shard-3";
const CAP = 2;

/** A ledger whose shards have nothing listed. One of them may be silent. */
function newLedger() {
  const state = { isSilent: true, asked: 0 };
  const tallyOf = (shard: string): Promise<ShardTally> => {
    if (shard === SILENT) state.asked += 1;
    if (shard === SILENT && state.isSilent) return never();
    return Promise.resolve({ shard, counts: { keys: 0, connections: 0, httpSessions: 0 }, claims: {} });
  };
  const shard = (name: string) => ({ tally: () => tallyOf(name), repair: () => tallyOf(name) });
  return { state, ledger: new Ledger({ DIRECTORY: { getByName: shard } } as unknown as Env) };
}

const claim = (): CapRequest => ({ shard: "shard-0", counted: "keys", has: 0, cap: CAP, id: fresh("claim") });
/** What a claim comes to. */
const endOf = (ledger: Ledger) =>
  ledger.claim(claim()).then(
    ({ isGranted }) => isGranted,
    (error: Error) => error.message,
  );

describe("a ledger with a shard that does not answer", () => {
  const UNANSWERED = `a shard of the directory, one of ${SHARDS}, has not answered`;

  it("says so to all who ask, and grants again once the shard answers", async () => {
    const { state, ledger } = newLedger();
    const ends = Promise.all(Array.from({ length: 5 }, () => endOf(ledger)));
    await vi.advanceTimersByTimeAsync(10_000);
    expect(await ends).toEqual(Array(5).fill(UNANSWERED));
    // Those that waited for their turn did not ask again.
    expect(state.asked).toBe(1);
    state.isSilent = false;
    expect(await endOf(ledger)).toBe(UNANSWERED);
    await vi.advanceTimersByTimeAsync(1_000);
    expect(await endOf(ledger)).toBe(true);
  });

  it("refuses nobody for that while there is room", async () => {
    const { state, ledger } = newLedger();
    state.isSilent = false;
    expect(await endOf(ledger)).toBe(true);
    state.isSilent = true;
    expect(await endOf(ledger)).toBe(true);
  });
});

describe("a place under a cap that the directory does not answer for", () => {
  const SILENCE = "the directory has not answered";

  it("is refused to a key with an error, and may be asked for again", async () => {
    const admitKey = vi.fn<KeyDirectory["admitKey"]>(() => never());
    const listing = new KeyListing({
      name: fresh("key"),
      directory: () => ({ admitKey, listKey: never, unlistKey: never }),
      waitUntil: () => {},
      count: () => {},
      failed: () => {},
      now: () => Date.now(),
      wakeBy: () => {},
      record: () => {},
    });
    const asked = listing.admit(1n).catch((error: Error) => error.message);
    await vi.advanceTimersByTimeAsync(15_000);
    expect(await asked).toBe(SILENCE);
    admitKey.mockResolvedValue({ isAdmitted: true });
    expect(await listing.admit(2n)).toBe(true);
  });

  it("is refused to a session with an error", async () => {
    const env = { DIRECTORY: { getByName: () => ({ openSession: () => never() }) } };
    const parts = { env, name: newSessionId(), config: configOf({ ...env, MAX_CONNECTIONS: "1" } as unknown as Env) };
    const listing = new SessionListing(parts as unknown as CommonParts);
    const asked = listing.join({ address: "192.0.2.1", transport: "ws" }).catch((error: Error) => error.message);
    await vi.advanceTimersByTimeAsync(15_000);
    expect(await asked).toBe(SILENCE);
  });
});
