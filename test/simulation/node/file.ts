import type { StoredKey } from "../../../src/core/engine/index.ts";
import { type SlotRow, storedKeyFrom, type WaiterRow } from "../../../src/core/key/row-codec.ts";
import { decodeHead, decodeSlot, decodeWaiter } from "../../../src/node/store/encoding.ts";
import type { Contents, KeyHead, Rows, Store, StoredRecords } from "../../../src/node/store/store.ts";

/** The rows of one key. */
export interface KeyRows {
  readonly name: string;
  head: KeyHead;
  readonly slots: Map<number, SlotRow>;
  readonly waiters: Map<number, WaiterRow>;
  readonly lapsed: Map<string, number>;
}

/** What a commit has changed. */
export interface Committed {
  readonly keys: ReadonlySet<number>;
}

/**
 * A store that keeps its rows in maps, so that thousands of worlds run in seconds and checks can look at every row. A
 * commit counts as a whole or not at all. A test compares it with SQLite.
 */
export class SimulatedFile implements Store {
  readonly isVolatile = false;
  readonly keys = new Map<number, KeyRows>();
  readonly sessions = new Map<number, { readonly name: string; readonly text: string }>();
  readonly values = new Map<string, string>();

  load(): Contents {
    return {
      keys: [...this.keys].map(([id, rows]) => ({ id, name: rows.name, key: assembled(rows) })),
      sessions: [...this.sessions].map(([id, { name, text }]) => ({ id, name, records: JSON.parse(text) })),
      values: new Map(this.values),
    };
  }

  loadKey(id: number): StoredKey | undefined {
    const rows = this.keys.get(id);
    return rows && assembled(rows);
  }

  loadSession(id: number): StoredRecords | undefined {
    const row = this.sessions.get(id);
    return row && (JSON.parse(row.text) as StoredRecords);
  }

  /** The key with this name. Throws if there are two. */
  keyNamed(name: string): KeyRows | undefined {
    const found = [...this.keys.values()].filter((rows) => rows.name === name);
    if (found.length > 1) throw new Error(`${name} has two rows`);
    return found[0];
  }

  commit(write: (rows: Rows) => void): void {
    this.prepare(write)();
  }

  hasRoom(): boolean {
    return true;
  }

  logBytes(): undefined {}

  close(): void {}

  /** Runs `write`, and returns a function that makes its changes count. */
  prepare(write: (rows: Rows) => void): () => Committed {
    const changes: (() => void)[] = [];
    const keys = new Set<number>();
    const below = (id: number, apply: (rows: KeyRows) => void) =>
      changes.push(() => {
        const rows = this.keys.get(id);
        if (!rows) throw new Error(`a row below the missing key ${id}`);
        keys.add(id);
        apply(rows);
      });
    write({
      putKey: (id, name, text) => {
        const head = decodeHead(text);
        // First: the rows below a key may be written before its own.
        changes.unshift(() => {
          keys.add(id);
          const rows = this.keys.get(id);
          if (rows) rows.head = head;
          else this.keys.set(id, { name, head, slots: new Map(), waiters: new Map(), lapsed: new Map() });
        });
      },
      deleteKeys: (first, last) => {
        changes.push(() => {
          for (let id = first; id <= last; id += 1) {
            const rows = this.keys.get(id);
            const isAlone = !rows || rows.slots.size + rows.waiters.size + rows.lapsed.size === 0;
            if (!isAlone) throw new Error(`rows are left below the deleted key ${id}`);
            this.keys.delete(id);
            keys.delete(id);
          }
        });
      },
      deleteParts: (id) =>
        below(id, ({ slots, waiters, lapsed }) => [slots, waiters, lapsed].map((rows) => rows.clear())),
      putSlot: (id, index, text) => below(id, ({ slots }) => slots.set(index, decodeSlot(text))),
      putWaiter: (id, place, text) => below(id, ({ waiters }) => waiters.set(place, decodeWaiter(text))),
      deleteWaiter: (id, place) => below(id, ({ waiters }) => waiters.delete(place)),
      putLapse: (id, session, at) => below(id, ({ lapsed }) => lapsed.set(session, at)),
      deleteLapse: (id, session) => below(id, ({ lapsed }) => lapsed.delete(session)),
      putSession: (id, name, text) =>
        changes.push(() => this.sessions.set(id, { name: this.sessions.get(id)?.name ?? name, text })),
      deleteSession: (id) => changes.push(() => this.sessions.delete(id)),
      putValue: (name, value) => changes.push(() => this.values.set(name, value)),
    });
    return () => {
      for (const apply of changes) apply();
      return { keys };
    };
  }
}

/** All slots that have ever been used, in the order of their indexes. */
export function slotsOf({ head, slots }: KeyRows): SlotRow[] {
  const others = [...slots.values()].sort((one, other) => one.slot - other.slot);
  return head.slot ? [head.slot, ...others] : others;
}

export const isHeld = ({ flags }: SlotRow): boolean => (flags & 1) !== 0;

function assembled(rows: KeyRows): StoredKey {
  const { limit, fence, at } = rows.head;
  return storedKeyFrom({
    limit,
    fence,
    lastActivity: at,
    slots: slotsOf(rows),
    waiters: [...rows.waiters.values()].sort((one, other) => one.place - other.place),
    lapsed: [...rows.lapsed].sort(([a, one], [b, other]) => one - other || (a < b ? -1 : 1)),
  });
}
