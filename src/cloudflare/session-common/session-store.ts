import type { RecordName, SessionRecords } from "../../core/session/effects.ts";
import type { SessionRows } from "./session-rows.ts";

/**
 * What a session keeps in storage: the keys it has used, so that nothing stays behind on them when its client leaves,
 * a few values, and state too large for its socket. Nothing is stored, not even a table, until there is something to
 * keep.
 */
const SPILL = "state";

/** Keeps a few keys where they cost nothing and outlive a sleep, as the attachment of a socket does. */
export interface KeyShelf {
  /** False if they do not fit: then what was kept before stays. */
  keep(keys: ReadonlySet<string>): boolean;
}

/** Keys that a shelf holds, in UTF-16 units of their names and a little for each. */
const MAX_SHELVED = 4_096;
const PER_KEY = 8;

export class SessionStore implements SessionRecords {
  readonly #rows: SessionRows;
  /** The session has ended: nothing may be stored any longer. */
  #isDeleted = false;
  /** Set while the session has a socket and ends with it. */
  #shelf: KeyShelf | undefined;
  #shelved = new Set<string>();

  constructor(rows: SessionRows) {
    this.#rows = rows;
  }

  /**
   * From now on keys are kept on the shelf, as far as they fit: if the object is lost together with its socket, nobody
   * needs them. `shelved` are those on it already.
   */
  useShelf(shelf: KeyShelf | undefined, shelved: Iterable<string> = []): void {
    if (this.#isDeleted || !this.#mayShelve) return;
    this.#shelf = shelf;
    for (const key of shelved) this.#shelved.add(key);
  }

  /** Stores a key. The first time costs one row, or nothing if it fits on the shelf; later times nothing. */
  storeKey(key: string): void {
    if (this.#isDeleted || this.#shelved.has(key) || this.#shelve(key)) return;
    this.#rows.addKey(key);
  }

  hasKey(key: string): boolean {
    return this.#shelved.has(key) || this.#rows.hasKey(key);
  }

  keys(): string[] {
    return [...new Set([...this.#shelved, ...this.#rows.keys()])];
  }

  forget(keys: readonly string[]): void {
    if (this.#isDeleted) return;
    let isShelfChanged = false;
    for (const key of keys) {
      if (this.#shelved.delete(key)) isShelfChanged = true;
      else this.#rows.removeKey(key);
    }
    if (isShelfChanged) this.#shelf?.keep(this.#shelved);
  }

  get(name: RecordName): unknown {
    return this.#rows.get(name);
  }

  put(name: RecordName, value: unknown): void {
    if (this.#isDeleted) return;
    // From here on the keys are needed without the socket.
    if (name === "resumption" || name === "ending") this.#unshelve();
    this.#rows.put(name, value);
  }

  spill(state: unknown): void {
    this.#rows.put(SPILL, state);
  }

  unspill(): void {
    this.#rows.delete(SPILL);
  }

  spilled(): unknown {
    return this.#rows.get(SPILL);
  }

  async deleteAll(): Promise<void> {
    this.#isDeleted = true;
    this.#shelf = undefined;
    this.#shelved.clear();
    await this.#rows.deleteAll();
  }

  get #mayShelve(): boolean {
    return this.get("resumption") === undefined && this.get("ending") === undefined;
  }

  #shelve(key: string): boolean {
    if (!this.#shelf) return false;
    let size = 0;
    for (const each of this.#shelved) size += each.length + PER_KEY;
    if (size + key.length + PER_KEY > MAX_SHELVED) return false;
    this.#shelved.add(key);
    if (this.#shelf.keep(this.#shelved)) return true;
    this.#shelved.delete(key);
    return false;
  }

  #unshelve(): void {
    for (const key of this.#shelved) this.#rows.addKey(key);
    this.#shelved.clear();
    this.#shelf?.keep(this.#shelved);
    this.#shelf = undefined;
  }
}
