/** An item of a list; the links belong to the list. */
export interface Linked<T> {
  ahead: T | undefined;
  behind: T | undefined;
}

/** Items in order. Appending and removing take constant time at any length. */
export class LinkedList<T extends Linked<T>> {
  #head: T | undefined;
  #tail: T | undefined;
  #length = 0;

  get length(): number {
    return this.#length;
  }

  get head(): T | undefined {
    return this.#head;
  }

  push(item: T): void {
    item.ahead = this.#tail;
    item.behind = undefined;
    if (this.#tail) this.#tail.behind = item;
    else this.#head = item;
    this.#tail = item;
    this.#length += 1;
  }

  /** Inserts an item before the first one that comes after it. Walks the list from its head. */
  insert(item: T, comesAfter: (other: T) => boolean): void {
    let next = this.#head;
    while (next && !comesAfter(next)) next = next.behind;
    if (!next) {
      this.push(item);
      return;
    }
    item.ahead = next.ahead;
    item.behind = next;
    if (next.ahead) next.ahead.behind = item;
    else this.#head = item;
    next.ahead = item;
    this.#length += 1;
  }

  /** The item must be in this list. */
  remove(item: T): void {
    if (item.ahead) item.ahead.behind = item.behind;
    else this.#head = item.behind;
    if (item.behind) item.behind.ahead = item.ahead;
    else this.#tail = item.ahead;
    item.ahead = undefined;
    item.behind = undefined;
    this.#length -= 1;
  }

  *[Symbol.iterator](): Generator<T> {
    for (let item = this.#head; item; item = item.behind) yield item;
  }
}
