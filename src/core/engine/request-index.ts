import { Slot } from "./slots.ts";
import { SmallMap } from "./small-map.ts";
import type { Waiter } from "./waiters.ts";

export type SlotOrWaiter = Slot | Waiter;

/** Finds what a request has led to, and everything that belongs to a session. */
export class RequestIndex {
  readonly #byRequest = new SmallMap<string, SlotOrWaiter>();
  /** Most sessions have one thing at a key, and then it stands for itself. */
  readonly #bySession = new SmallMap<string, SlotOrWaiter | Set<SlotOrWaiter>>();

  /** Requests that are known. */
  get size(): number {
    return this.#byRequest.size;
  }

  get sessions(): Iterable<string> {
    return this.#bySession.keys();
  }

  has(request: string): boolean {
    return this.#byRequest.has(request);
  }

  get(request: string): SlotOrWaiter | undefined {
    return this.#byRequest.get(request);
  }

  ofSession(session: string): SlotOrWaiter[] {
    const items = this.#bySession.get(session);
    if (items === undefined) return [];
    return items instanceof Set ? [...items] : [items];
  }

  /** When a waiter is promoted, its slot takes over the request; removing either one leaves the other indexed. */
  add(item: SlotOrWaiter): void {
    this.set(item.request, item);
    this.addToSession(item);
  }

  /** For a promoted waiter: the request leads to its slot. */
  addToSession(item: SlotOrWaiter): void {
    const items = this.#bySession.get(item.session);
    if (items instanceof Set) items.add(item);
    else this.#bySession.set(item.session, items && items !== item ? new Set([items, item]) : item);
  }

  set(request: string, item: SlotOrWaiter): void {
    this.#byRequest.set(request, item);
  }

  /** The item is found by the request `to` from now on, and no longer by `from`. */
  move(item: SlotOrWaiter, from: string, to: string): void {
    this.#unset(from, item);
    this.set(to, item);
  }

  remove(item: SlotOrWaiter): void {
    this.#unset(item.request, item);
    if (!(item instanceof Slot) && item.waitRequest !== undefined) this.#unset(item.waitRequest, item);
    const items = this.#bySession.get(item.session);
    if (items instanceof Set) items.delete(item);
    if (items === item || (items instanceof Set && items.size === 0)) this.#bySession.delete(item.session);
  }

  #unset(request: string, item: SlotOrWaiter): void {
    if (this.#byRequest.get(request) === item) this.#byRequest.delete(request);
  }
}
