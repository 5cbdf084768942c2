/** Storage as version 0.1.0 has left it, except for `releases`: nothing of that version has to be read any more. */
import { evictDurableObject, runInDurableObject } from "cloudflare:test";
import { keyStub } from "./support.ts";

const TABLES = `
  CREATE TABLE key (
    id INTEGER PRIMARY KEY CHECK (id = 1), slot_limit INTEGER NOT NULL, fence TEXT NOT NULL,
    founded_at INTEGER NOT NULL, is_listed INTEGER NOT NULL
  );
  CREATE TABLE slots (
    slot INTEGER PRIMARY KEY, token TEXT NOT NULL, session TEXT NOT NULL, request TEXT NOT NULL,
    lease_s INTEGER NOT NULL, expires_at INTEGER NOT NULL, since INTEGER NOT NULL, place INTEGER NOT NULL,
    flags INTEGER NOT NULL, releases TEXT
  );
  CREATE TABLE waiters (
    place INTEGER PRIMARY KEY, session TEXT NOT NULL, request TEXT NOT NULL, wait_request TEXT,
    is_enqueued INTEGER NOT NULL, lease_s INTEGER NOT NULL, joined_at INTEGER NOT NULL, deadline INTEGER, outcome TEXT
  );
  CREATE TABLE lapsed (session TEXT PRIMARY KEY, at INTEGER NOT NULL) WITHOUT ROWID;
`;

/** Values of `is_listed`. */
export const BEING_FORGOTTEN = 0;
export const BEING_LISTED = 2;

interface StoredHold {
  readonly isListed: number;
  readonly foundedAt: number;
  readonly token: string;
  readonly expiresAt: number;
  readonly isHeld: boolean;
}

/** Stores the tables of a key, and a row each for the key and its slot. The key is asleep then. */
export async function storeTables(name: string, hold?: StoredHold): Promise<void> {
  await runInDurableObject(keyStub(name), (_, { storage }) => {
    storage.sql.exec(TABLES);
    if (!hold) return;
    const { isListed, foundedAt, token, expiresAt, isHeld } = hold;
    storage.sql.exec("INSERT INTO key VALUES (1, 1, '0000000000000000', ?, ?)", foundedAt, isListed);
    const [since, flags] = [foundedAt, isHeld ? 3 : 0];
    storage.sql.exec("INSERT INTO slots VALUES (0, ?, 's', 'r', 33, ?, ?, 0, ?, NULL)", token, expiresAt, since, flags);
  });
  await evictDurableObject(keyStub(name));
}
