import {
  type CommandContext,
  fenceFromHex,
  fenceToHex,
  type KeyCommandOf,
  type KeyCommandType,
  KeyEngine,
  type KeyEvent,
  type KeyOutcomeOf,
  type KeyView,
  limitIfNew,
  type NoticeAnswer,
  type Observation,
  outcomeWithoutKey,
  perform,
  type Slot,
  type StoredKey,
} from "../core/engine/index.ts";
import { slotRow } from "../core/key/compact-record.ts";
import type { History } from "../core/key/history.ts";
import { waiterRow } from "../core/key/row-codec.ts";
import { encodeHead, encodeSlot, encodeWaiter } from "./store/encoding.ts";
import type { Rows, Store } from "./store/store.ts";
import type { Timed } from "./timers.ts";

/** The stored value that holds the highest fence of all keys that were deleted. */
const FENCE_MARK = "fence_mark";

/** What keys need of their host. */
export interface KeysParts {
  readonly store: Store;
  /** Time and limits for the next command. */
  context(): CommandContext;
  /** 0 means no limit. */
  readonly maxLocks: number;
  readonly gcMaxIdleMs: number;
  /** An idle key may be kept for this much longer than necessary. */
  readonly graceMs: number;
  schedule(key: Key): void;
  /** A key is there that was not, or it was deleted in a batch that has failed. */
  created(key: Key): void;
  /** Something has to be told to a session, a claim or the relay. */
  tell(key: Key, event: KeyEvent): void;
  /** Something has happened, and counts if it is stored. */
  observed(key: Key, observations: readonly Observation[]): void;
  /** A key that had been idle for long is deleted. */
  pruned(key: Key): void;
}

type KeyCounts = Pick<KeyView, "limit" | "holderCount" | "waiters">;
type PruneTimes = Pick<CommandContext, "now" | "gcMaxIdleMs">;

/** What is kept in memory of a key that was used once and is free, as most keys stay. */
interface Remains {
  readonly limit: number;
  readonly lastFence: bigint;
  readonly lastActivity: number;
  readonly dueAt: number;
  /** What its engine can be made of again; undefined if that can be read. */
  readonly stored: StoredKey | undefined;
}

/** One key in memory. */
export class Key implements Timed {
  readonly name: string;
  #engine: KeyEngine | undefined;
  /** While there are remains, an engine is there only to be looked at. */
  #remains: Remains | undefined;
  #isUsedAgain = false;
  /** Of its row; 0 while it has none. */
  id = 0;
  scheduledAt = Number.POSITIVE_INFINITY;
  isDeleted = false;
  /** There may be rows of further slots, of waiters or of lapsed grants. */
  hasParts: boolean;
  /** Its newest grants; undefined while none is remembered. */
  history: History | undefined;
  /** When it was created, and the highest fence of deleted keys then, as hex digits. */
  readonly #foundedAt: number;
  readonly #floor: string;
  /** The first slot shares the key's row. */
  #first: Slot | undefined;
  readonly #keys: Keys;

  constructor(name: string, stored: StoredKey, floor: string, keys: Keys) {
    this.name = name;
    this.#keys = keys;
    this.#foundedAt = stored.lastActivity;
    this.#floor = floor;
    this.#engine = new KeyEngine(stored);
    this.#first = stored.slots[0];
    this.hasParts = stored.slots.length > 1 || stored.waiters.length > 0 || stored.lapsed.length > 0;
  }

  get engine(): KeyEngine {
    if (!this.#engine) {
      const stored = this.#remains?.stored ?? this.#keys.read(this);
      this.#engine = new KeyEngine(stored);
      this.#first = stored.slots[0];
    }
    return this.#engine;
  }

  /** False for a key that was used once and is free. */
  get isInUse(): boolean {
    return this.#remains === undefined;
  }

  /** The sessions that hold something here or wait for it. */
  get sessions(): Iterable<string> {
    return this.#remains ? [] : this.engine.sessions;
  }

  get dueAt(): number {
    if (this.isDeleted) return Number.POSITIVE_INFINITY;
    return this.#remains?.dueAt ?? this.engine.nextWake(this.#keys.wakeTimes);
  }

  /** Undefined if the key counts as deleted. */
  countsAt(times: PruneTimes): KeyCounts | undefined {
    if (this.isPrunable(times)) return undefined;
    return this.#remains ? { limit: this.#remains.limit, holderCount: 0, waiters: 0 } : this.engine.counts;
  }

  isPrunable(times: PruneTimes): boolean {
    if (!this.#remains) return this.engine.isPrunable(times);
    return times.now - this.#remains.lastActivity > times.gcMaxIdleMs;
  }

  /** A session has yet to be told how its wait ended. */
  get hasNews(): boolean {
    return !this.#remains && this.engine.hasNews;
  }

  get lastFence(): bigint {
    return this.#remains?.lastFence ?? this.engine.lastFence;
  }

  /** A command has changed it. */
  changed(): void {
    this.#remains = undefined;
  }

  /** A command was carried out. The engine goes again if there are still remains. */
  rest(): void {
    if (this.#remains) this.#dropEngine();
  }

  /** Undefined if the token is not held. */
  leaseEnd(token: string): number | undefined {
    return this.#remains ? undefined : this.engine.leaseEnd(token);
  }

  /** Its changes are durable. The engine of a key that is free after its first use goes: it takes 2 kB. */
  committed(): void {
    if (this.#isUsedAgain) return;
    const stored = this.engine.remains;
    if (!stored) return;
    const { limit, fence: lastFence, lastActivity } = stored;
    const kept = this.#keys.isVolatile ? stored : undefined;
    this.#remains = { limit, lastFence, lastActivity, dueAt: this.dueAt, stored: kept };
    this.#dropEngine();
    this.#isUsedAgain = true;
  }

  fire(): void {
    if (!this.isDeleted) this.#keys.wake(this);
  }

  #dropEngine(): void {
    this.#engine = undefined;
    this.#first = undefined;
  }

  /** Continues from what is stored. */
  restore(stored: StoredKey): void {
    this.isDeleted = false;
    this.#engine = new KeyEngine(stored);
    this.#remains = undefined;
    this.#first = stored.slots[0];
  }

  /** Writes what its commands have changed, each row once. */
  write(rows: Rows, { isNew }: { readonly isNew: boolean }): void {
    const { slots, waiters, lapsed, limit } = this.engine.takeChanges();
    let isHeadChanged = isNew || limit !== undefined;
    for (const slot of slots) {
      if (slot.index > 0) {
        this.hasParts = true;
        rows.putSlot(this.id, slot.index, encodeSlot(slotRow(slot)));
      } else {
        this.#first = slot;
        isHeadChanged = true;
      }
    }
    for (const waiter of waiters) {
      this.hasParts = true;
      if (waiter.isStored) rows.putWaiter(this.id, waiter.place, encodeWaiter(waiterRow(waiter)));
      else rows.deleteWaiter(this.id, waiter.place);
    }
    for (const [session, at] of lapsed) {
      this.hasParts = true;
      if (at === undefined) rows.deleteLapse(this.id, session);
      else rows.putLapse(this.id, session, at);
    }
    if (!isHeadChanged) return;
    const slot = this.#first ? slotRow(this.#first) : null;
    const head = { limit: this.engine.limit, fence: this.#floor, at: this.#foundedAt, slot };
    rows.putKey(this.id, this.name, encodeHead(head));
  }
}

/** All keys: their engines in memory, and what of them has to be stored. */
export class Keys {
  readonly #parts: KeysParts;
  readonly #byName = new Map<string, Key>();
  /** Keys without holders and waiters, longest idle first; kept only if keys are limited. */
  readonly #idle = new Set<Key>();
  /** Of the batch. New ones for each: V8 lets a set that was cleared grow where only a full garbage collection comes by. */
  #changed = new Set<Key>();
  #deleted = new Set<Key>();
  #lastId = 0;
  /** No key that was deleted had a higher fence, so new ones start above it. */
  #mark = 0n;
  #markHex = fenceToHex(0n);
  #isMarkChanged = false;
  readonly wakeTimes: { readonly gcMaxIdleMs: number; readonly graceMs: number; readonly isExact: true };

  constructor(parts: KeysParts) {
    this.#parts = parts;
    this.wakeTimes = { gcMaxIdleMs: parts.gcMaxIdleMs, graceMs: parts.graceMs, isExact: true };
  }

  get size(): number {
    return this.#byName.size;
  }

  get isVolatile(): boolean {
    return this.#parts.store.isVolatile;
  }

  /** A key of which nothing has changed since the last commit. */
  read(key: Key): StoredKey {
    const stored = this.#parts.store.loadKey(key.id);
    if (!stored) throw new Error(`key ${JSON.stringify(key.name)} is not stored`);
    return stored;
  }

  get(name: string): Key | undefined {
    return this.#byName.get(name);
  }

  [Symbol.iterator](): Iterator<Key> {
    return this.#byName.values();
  }

  /** Takes over what is stored. */
  load(stored: Iterable<{ id: number; name: string; key: StoredKey }>, values: ReadonlyMap<string, string>): void {
    this.#setMark(fenceFromHex(values.get(FENCE_MARK) ?? "0"));
    for (const { id, name, key: rows } of stored) {
      const key = new Key(name, rows, fenceToHex(rows.fence), this);
      key.id = id;
      this.#lastId = Math.max(this.#lastId, id);
      this.#byName.set(name, key);
      this.#noteIdle(key);
      this.#parts.schedule(key);
      key.committed();
    }
    this.#isMarkChanged = false;
  }

  /** Carries out one command. Throws a `FenceExhaustedError` if it has to grant a slot and no fence is left. */
  ask<Type extends KeyCommandType>(name: string, command: KeyCommandOf<Type>): KeyOutcomeOf<Type> {
    const context = this.#parts.context();
    const key = this.#byName.get(name) ?? this.#create(name, limitIfNew(command), context);
    return key ? this.run(key, (engine) => perform(engine, command, context)) : outcomeWithoutKey(command);
  }

  /** Runs something on a key that is there, and sees to what follows from it. */
  run<Outcome>(key: Key, decide: (engine: KeyEngine) => Outcome): Outcome {
    try {
      return decide(key.engine);
    } catch (error) {
      // It may be half changed.
      this.#changed.add(key);
      throw error;
    } finally {
      this.#spread(key);
    }
  }

  /** A session's answer to a notice about this request. `offered` is the token that the notice carried. */
  answer(key: Key, request: string, answer: NoticeAnswer, offered?: string): void {
    const context = this.#parts.context();
    this.run(key, (engine) => engine.answer(request, answer, context, offered));
  }

  /** Lets time pass for a key; deletes it if it has been idle for long enough. */
  wake(key: Key): void {
    const context = this.#parts.context();
    if (key.isInUse) this.run(key, (engine) => engine.tick(context));
    this.#deleteIfPrunable(key, context);
  }

  get hasChanges(): boolean {
    return this.#changed.size + this.#deleted.size > 0;
  }

  /** Writes everything that has changed since the last commit. */
  write(rows: Rows): void {
    for (const key of this.#changed) {
      if (this.isVolatile) {
        key.engine.takeChanges();
        continue;
      }
      const isNew = key.id === 0;
      if (isNew) {
        this.#lastId += 1;
        key.id = this.#lastId;
      }
      key.write(rows, { isNew });
    }
    this.#writeDeleted(rows);
    if (this.#isMarkChanged) rows.putValue(FENCE_MARK, this.#markHex);
  }

  /** Keys that were created one after the other are usually pruned together: their rows go with one statement. */
  #writeDeleted(rows: Rows): void {
    const ids: number[] = [];
    for (const { id, hasParts } of this.#deleted) {
      if (id === 0) continue;
      ids.push(id);
      if (hasParts) rows.deleteParts(id);
    }
    ids.sort((one, other) => one - other);
    for (let at = 0; at < ids.length; ) {
      const first = ids[at] as number;
      let last = first;
      for (at += 1; ids[at] === last + 1; at += 1) last += 1;
      rows.deleteKeys(first, last);
    }
  }

  /** What was written is durable. */
  committed(): void {
    for (const key of this.#changed) key.committed();
    this.#newBatch();
    this.#isMarkChanged = false;
  }

  /** What was changed does not count: continues from what is stored. Returns the keys that were read again. */
  takeBack(): readonly Key[] {
    const restored: Key[] = [];
    for (const key of [...this.#changed, ...this.#deleted]) {
      const stored = this.#parts.store.loadKey(key.id);
      this.#idle.delete(key);
      key.isDeleted = stored === undefined;
      if (!stored) {
        if (this.#byName.get(key.name) === key) this.#byName.delete(key.name);
        continue;
      }
      key.restore(stored);
      this.#byName.set(key.name, key);
      this.#parts.created(key);
      this.#noteIdle(key);
      this.#parts.schedule(key);
      restored.push(key);
    }
    this.#newBatch();
    return restored;
  }

  #create(name: string, limit: number | undefined, context: CommandContext): Key | undefined {
    if (limit === undefined || !this.#hasRoom(context)) return undefined;
    const stored = { limit, fence: this.#mark, lastActivity: context.now, slots: [], waiters: [], lapsed: [] };
    const key = new Key(name, stored, this.#markHex, this);
    this.#byName.set(name, key);
    this.#parts.created(key);
    return key;
  }

  /** Keys that have been idle for long make room. */
  #hasRoom(context: CommandContext): boolean {
    const { maxLocks } = this.#parts;
    if (maxLocks === 0 || this.size < maxLocks) return true;
    for (const key of this.#idle) {
      if (this.#deleteIfPrunable(key, context)) return true;
      // Those behind it have been idle for less long. One with news is only skipped.
      if (!key.isPrunable(context)) return false;
    }
    return false;
  }

  #deleteIfPrunable(key: Key, context: CommandContext): boolean {
    if (!key.isPrunable(context) || key.hasNews || this.#byName.get(key.name) !== key) return false;
    this.#setMark(key.lastFence);
    key.isDeleted = true;
    this.#byName.delete(key.name);
    this.#idle.delete(key);
    this.#changed.delete(key);
    this.#deleted.add(key);
    this.#parts.pruned(key);
    return true;
  }

  /** Brings what a command has caused to where it belongs. */
  #spread(key: Key): void {
    const { engine } = key;
    if (engine.hasChanges) {
      key.changed();
      this.#changed.add(key);
      this.#noteIdle(key);
    }
    this.#parts.schedule(key);
    const observations = engine.takeObservations();
    if (observations.length > 0) this.#parts.observed(key, observations);
    for (const event of engine.takeEvents()) this.#parts.tell(key, event);
    key.rest();
  }

  #noteIdle(key: Key): void {
    if (this.#parts.maxLocks === 0) return;
    this.#idle.delete(key);
    if (key.engine.idleSince !== undefined) this.#idle.add(key);
  }

  #newBatch(): void {
    if (this.#changed.size > 0) this.#changed = new Set();
    if (this.#deleted.size > 0) this.#deleted = new Set();
  }

  #setMark(fence: bigint): void {
    if (fence <= this.#mark) return;
    this.#mark = fence;
    this.#markHex = fenceToHex(fence);
    this.#isMarkChanged = true;
  }
}
