/** The simulated file behaves as SQLite does: the same commits leave the same contents. */
import { expect, it } from "vitest";
import { encodeHead, encodeSlot, encodeWaiter } from "../../../src/node/store/encoding.ts";
import { SqliteStore } from "../../../src/node/store/sqlite.ts";
import type { KeyHead, Rows, Store } from "../../../src/node/store/store.ts";
import { Schedule } from "../schedule.ts";
import { SimulatedFile } from "./file.ts";

const COMMITS = 300;

it("keeps what SQLite keeps, and loses what SQLite loses", () => {
  const chance = new Schedule(1);
  const stores: readonly Store[] = [new SimulatedFile(), SqliteStore.open(":memory:")];
  for (let commit = 0; commit < COMMITS; commit++) {
    const ids = [...(stores[0] as Store).load().keys].map(({ id }) => id);
    const deleted = chance.happens(0.2) ? chance.pick(ids) : undefined;
    const kept = ids.filter((id) => id !== deleted);
    const changes = Array.from({ length: chance.between(1, 6) }, () => changeOf(chance, kept));
    if (deleted !== undefined)
      changes.push((rows) => {
        rows.deleteParts(deleted);
        rows.deleteKeys(deleted, deleted);
      });
    const fails = chance.happens(0.2);
    for (const store of stores) {
      const write = (rows: Rows) => {
        for (const change of changes) change(rows);
        if (fails) throw new Error("disk full");
      };
      if (fails) expect(() => store.commit(write)).toThrow("disk full");
      else store.commit(write);
    }
    const [one, other] = stores.map(contentsOf);
    expect(one).toEqual(other);
  }
  for (const store of stores) store.close();
});

function changeOf(chance: Schedule, ids: readonly number[]): (rows: Rows) => void {
  const id = chance.pick(ids);
  const [place, session] = [chance.between(1, 4), `s${chance.between(1, 3)}`];
  const change = chance.chance();
  if (id === undefined || change < 0.2) {
    const name = `k${chance.between(1, 1_000_000)}`;
    const created = chance.between(1, 1_000_000);
    const slot = chance.happens(0.5) ? null : slotOf(chance, 0);
    const head: KeyHead = { limit: chance.between(1, 3), fence: chance.hex(16), at: chance.between(1, 99), slot };
    return (rows) => rows.putKey(created, name, encodeHead(head));
  }
  const slot = encodeSlot(slotOf(chance, place));
  if (change < 0.4) return (rows) => rows.putSlot(id, place, slot);
  if (change < 0.55) return (rows) => rows.putWaiter(id, place, encodeWaiter(waiterOf(place, session)));
  if (change < 0.65) return (rows) => rows.deleteWaiter(id, place);
  if (change < 0.75) return (rows) => rows.putLapse(id, session, place);
  if (change < 0.8) return (rows) => rows.deleteLapse(id, session);
  if (change < 0.9) return (rows) => rows.putSession(place, session, JSON.stringify({ life: place }));
  if (change < 0.95) return (rows) => rows.deleteSession(place);
  return (rows) => rows.putValue(session, String(place));
}

function slotOf(chance: Schedule, slot: number) {
  const token = chance.hex(32);
  const held = { session: "s", request: "r", lease_s: 1, expires_at: 2, since: 3, place: 0 };
  return { slot, token, ...held, flags: chance.between(0, 1), releases: null, sessionless: null };
}

function waiterOf(place: number, session: string) {
  const asked = { request: `r${place}`, wait_request: null, is_enqueued: 0, lease_s: 5 };
  return { place, session, ...asked, joined_at: 1, deadline: null, outcome: null, sessionless: null };
}

function contentsOf(store: Store) {
  const { keys, sessions, values } = store.load();
  const byId = (one: { id: number }, other: { id: number }) => one.id - other.id;
  return {
    keys: [...keys].sort(byId),
    sessions: [...sessions].sort(byId),
    values: new Map([...values].sort()),
    again: [...keys].sort(byId).map(({ id }) => store.loadKey(id)),
    sessionsAgain: [1, 2, 3, 4].map((id) => store.loadSession(id)),
  };
}
