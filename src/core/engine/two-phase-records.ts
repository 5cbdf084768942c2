import type { Output } from "./output.ts";
import type { SlotOrWaiter } from "./request-index.ts";
import { Slot } from "./slots.ts";

const NEVER = Number.POSITIVE_INFINITY;

/**
 * What each session's `enqueue` led to, until its `wait` is answered. If the grant ends before the session asks for it,
 * the record has lapsed; that is remembered until the session asks, or for as long as an idle key is kept.
 */
export class TwoPhaseRecords {
  // Most keys have neither.
  #bySession: Map<string, SlotOrWaiter> | undefined;
  #lapsedAt: Map<string, number> | undefined;
  readonly #output: Output;
  /** No lapse is older than this. */
  #oldestLapse = NEVER;

  constructor(lapsed: Iterable<readonly [session: string, at: number]>, output: Output) {
    this.#output = output;
    for (const [session, at] of lapsed) this.#setLapse(session, at);
  }

  get isEmpty(): boolean {
    return !this.#bySession?.size && !this.#lapsedAt?.size;
  }

  has(session: string): boolean {
    return this.#bySession?.has(session) === true;
  }

  get(session: string): SlotOrWaiter | undefined {
    return this.#bySession?.get(session);
  }

  /** What the session's `enqueue` led to, unless a `wait` is in progress on it. */
  unclaimed(session: string): SlotOrWaiter | undefined {
    const record = this.get(session);
    const waiter = record instanceof Slot ? record.waiter : record;
    return waiter?.waitRequest === undefined ? record : undefined;
  }

  add(item: SlotOrWaiter): void {
    this.#bySession ??= new Map();
    this.#bySession.set(item.session, item);
  }

  /** Does nothing if the session has another record by now, or none. */
  remove(item: SlotOrWaiter): void {
    if (this.#bySession?.get(item.session) === item) this.#bySession.delete(item.session);
  }

  addLapse(session: string, at: number): void {
    this.#setLapse(session, at);
    this.#output.changes.lapsed.set(session, at);
  }

  /** Forgets that the session's record has lapsed; true if it had. */
  takeLapse(session: string): boolean {
    if (!this.#lapsedAt?.delete(session)) return false;
    this.#output.changes.lapsed.set(session, undefined);
    return true;
  }

  forgetLapsesBefore(time: number): void {
    if (time <= this.#oldestLapse) return;
    this.#oldestLapse = NEVER;
    for (const [session, at] of this.#lapsedAt ?? []) {
      if (at < time) this.takeLapse(session);
      else this.#oldestLapse = Math.min(this.#oldestLapse, at);
    }
  }

  #setLapse(session: string, at: number): void {
    this.#lapsedAt ??= new Map();
    this.#lapsedAt.set(session, at);
    this.#oldestLapse = Math.min(this.#oldestLapse, at);
  }
}
