import type { RecordName, SessionRecords } from "../../core/session/effects.ts";
import type { SessionRows } from "./session-rows.ts";

/**
 * What a session keeps in storage: the keys it has used, so that nothing stays behind on them when its client leaves,
 * a few values, and state too large for its socket. Nothing is stored, not even a table, until there is something to
 * keep.
 */
const SPILL = "state";

/** The attachment of a socket: keys in it cost no row, outlive a sleep, and are lost with the socket. */
export interface KeyAttachment {
  /** Replaces the attached keys. False if they do not fit: then nothing changes. */
  attachKeys(keys: ReadonlySet<string>): boolean;
}

/** How much the attached keys may take, in UTF-16 units of their names and a little for each. */
const MAX_ATTACHED = 4_096;
const PER_KEY = 8;

export class SessionStore implements SessionRecords {
  readonly #rows: SessionRows;
  /** The session has ended: nothing may be stored any longer. */
  #isDeleted = false;
  /** Set while the session has a socket and ends with it. */
  #attachment: KeyAttachment | undefined;
  #attached = new Set<string>();

  constructor(rows: SessionRows) {
    this.#rows = rows;
  }

  /**
   * Keeps keys in the attachment from now on, as far as they fit: if the object is lost together with its socket, they
   * are not needed. `attached` are those already in it.
   */
  useAttachment(attachment: KeyAttachment | undefined, attached: Iterable<string> = []): void {
    if (this.#isDeleted || !this.#mayAttach) return;
    this.#attachment = attachment;
    for (const key of attached) this.#attached.add(key);
  }

  /** Stores a key. The first time costs one row, or nothing if it fits into the attachment; later times nothing. */
  storeKey(key: string): void {
    if (this.#isDeleted || this.#attached.has(key) || this.#attach(key)) return;
    this.#rows.addKey(key);
  }

  hasKey(key: string): boolean {
    return this.#attached.has(key) || this.#rows.hasKey(key);
  }

  keys(): string[] {
    return [...new Set([...this.#attached, ...this.#rows.keys()])];
  }

  forget(keys: readonly string[]): void {
    if (this.#isDeleted) return;
    let isChanged = false;
    for (const key of keys) {
      if (this.#attached.delete(key)) isChanged = true;
      else this.#rows.removeKey(key);
    }
    if (isChanged) this.#attachment?.attachKeys(this.#attached);
  }

  get(name: RecordName): unknown {
    return this.#rows.get(name);
  }

  put(name: RecordName, value: unknown): void {
    if (this.#isDeleted) return;
    // From here on the keys are needed without the socket.
    if (name === "resumption" || name === "ending") this.#detachKeys();
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
    this.#attachment = undefined;
    this.#attached.clear();
    await this.#rows.deleteAll();
  }

  get #mayAttach(): boolean {
    return this.get("resumption") === undefined && this.get("ending") === undefined;
  }

  #attach(key: string): boolean {
    if (!this.#attachment) return false;
    let size = 0;
    for (const each of this.#attached) size += each.length + PER_KEY;
    if (size + key.length + PER_KEY > MAX_ATTACHED) return false;
    this.#attached.add(key);
    if (this.#attachment.attachKeys(this.#attached)) return true;
    this.#attached.delete(key);
    return false;
  }

  #detachKeys(): void {
    for (const key of this.#attached) this.#rows.addKey(key);
    this.#attached.clear();
    this.#attachment?.attachKeys(this.#attached);
    this.#attachment = undefined;
  }
}
