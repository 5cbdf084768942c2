import type { Contents, Rows, SnapshotOutcome, Store } from "./store.ts";

/** What is measured of commits. */
interface CommitMeter {
  commit(seconds: number, changes: number): void;
  commitFailed(): void;
}

/** A store whose commits are measured. */
export class MeasuredStore implements Store {
  readonly #store: Store;
  readonly #meter: CommitMeter;
  readonly #elapsed: () => number;

  /** Of the commit under way. */
  #changes = 0;
  /** The rows of the last commit: most stores give the same ones to each. */
  #rows: { readonly counted: Rows; readonly of: Rows } | undefined;

  /** `elapsed` is a clock in ms. */
  constructor(store: Store, meter: CommitMeter, elapsed: () => number) {
    this.#store = store;
    this.#meter = meter;
    this.#elapsed = elapsed;
  }

  get isVolatile(): boolean {
    return this.#store.isVolatile;
  }

  commit(write: (rows: Rows) => void): void {
    const startedAt = this.#elapsed();
    this.#changes = 0;
    try {
      this.#store.commit((rows) => write(this.#counted(rows)));
    } catch (error) {
      this.#meter.commitFailed();
      throw error;
    }
    this.#meter.commit((this.#elapsed() - startedAt) / 1000, this.#changes);
  }

  load(): Contents {
    return this.#store.load();
  }

  loadKey(id: number): ReturnType<Store["loadKey"]> {
    return this.#store.loadKey(id);
  }

  loadSession(id: number): ReturnType<Store["loadSession"]> {
    return this.#store.loadSession(id);
  }

  hasRoom(): boolean {
    return this.#store.hasRoom();
  }

  logBytes(): number | undefined {
    return this.#store.logBytes();
  }

  snapshot(): SnapshotOutcome | undefined {
    return this.#store.snapshot?.();
  }

  close(): void {
    this.#store.close();
  }

  #counted(of: Rows): Rows {
    if (this.#rows?.of === of) return this.#rows.counted;
    const change = () => {
      this.#changes += 1;
      return of;
    };
    const counted: Rows = {
      putKey: (id, name, head) => change().putKey(id, name, head),
      deleteKeys: (first, last) => change().deleteKeys(first, last),
      deleteParts: (key) => change().deleteParts(key),
      putSlot: (key, slot, data) => change().putSlot(key, slot, data),
      putWaiter: (key, place, data) => change().putWaiter(key, place, data),
      deleteWaiter: (key, place) => change().deleteWaiter(key, place),
      putLapse: (key, session, at) => change().putLapse(key, session, at),
      deleteLapse: (key, session) => change().deleteLapse(key, session),
      putSession: (id, name, data) => change().putSession(id, name, data),
      deleteSession: (id) => change().deleteSession(id),
      putValue: (name, value) => change().putValue(name, value),
    };
    this.#rows = { counted, of };
    return counted;
  }
}
