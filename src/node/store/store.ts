import type { StoredKey } from "../../core/engine/index.ts";
import type { SlotRow } from "../../core/key/row-codec.ts";

/** The row of a key, with its first slot: for a lock without waiters that is all. */
export interface KeyHead {
  readonly limit: number;
  /** Hexadecimal; at least as high as every fence of the key that is no longer in a slot. */
  readonly fence: string;
  /** Last activity that the slots do not show. */
  readonly at: number;
  /** Null if nothing was ever granted. */
  readonly slot: SlotRow | null;
}

/** What a session has stored, by the name of the record. */
export type StoredRecords = Readonly<Record<string, unknown>>;

/** Everything that is stored, as it is read at the start. */
export interface Contents {
  readonly keys: Iterable<{ readonly id: number; readonly name: string; readonly key: StoredKey }>;
  readonly sessions: Iterable<{ readonly id: number; readonly name: string; readonly records: StoredRecords }>;
  /** Single values by name. */
  readonly values: ReadonlyMap<string, string>;
}

/** The rows that one commit writes. Ids are the host's: it counts them. */
export interface Rows {
  putKey(id: number, name: string, head: string): void;
  /** All keys with these ids and those between them. */
  deleteKeys(first: number, last: number): void;
  /** The rows below a key. */
  deleteParts(key: number): void;
  putSlot(key: number, slot: number, data: string): void;
  putWaiter(key: number, place: number, data: string): void;
  deleteWaiter(key: number, place: number): void;
  putLapse(key: number, session: string, at: number): void;
  deleteLapse(key: number, session: string): void;
  putSession(id: number, name: string, data: string): void;
  deleteSession(id: number): void;
  putValue(name: string, value: string): void;
}

/** A copy of everything that was stored at one moment. Its reader reads `content` to the end, or cancels it. */
export interface Snapshot {
  readonly status: "taken";
  readonly bytes: number;
  readonly content: ReadableStream<Uint8Array>;
}

/** `under_way`: another one is being read. `no_room`: it would not fit on the disk. */
export type SnapshotOutcome = Snapshot | { readonly status: "under_way" | "no_room" };

/** Where the host keeps what must outlive it. */
export interface Store {
  /** Nothing is kept: what would be stored need not be encoded. */
  readonly isVolatile: boolean;
  load(): Contents;
  /** One key as stored, undefined if it is not. */
  loadKey(id: number): StoredKey | undefined;
  loadSession(id: number): StoredRecords | undefined;
  /** Makes everything that `write` puts and deletes durable, or throws and changes nothing. */
  commit(write: (rows: Rows) => void): void;
  /** Whether new keys fit. If not, what is left is for renewals and releases. */
  hasRoom(): boolean;
  /** The size of the log that commits go to; undefined if there is none. */
  logBytes(): number | undefined;
  /** Takes a copy, in one step. Undefined if nothing is kept. Throws if it cannot be made. */
  snapshot?(): SnapshotOutcome | undefined;
  close(): void;
}
