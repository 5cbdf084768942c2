/** A member of a queue; the links belong to the queue. */
export interface Linked<T> {
  ahead: T | undefined;
  behind: T | undefined;
}

/** First in, first out, with removal from the middle in constant time at any length. */
export class Queue<T extends Linked<T>> {
  #head: T | undefined;
  #tail: T | undefined;
  #length = 0;

  get length(): number {
    return this.#length;
  }

  get head(): T | undefined {
    return this.#head;
  }

  push(member: T): void {
    member.ahead = this.#tail;
    member.behind = undefined;
    if (this.#tail) this.#tail.behind = member;
    else this.#head = member;
    this.#tail = member;
    this.#length += 1;
  }

  /** Puts a member before the first one, seen from the head, that comes after it. Takes time with those it passes. */
  insert(member: T, comesAfter: (other: T) => boolean): void {
    let next = this.#head;
    while (next && !comesAfter(next)) next = next.behind;
    if (!next) {
      this.push(member);
      return;
    }
    member.ahead = next.ahead;
    member.behind = next;
    if (next.ahead) next.ahead.behind = member;
    else this.#head = member;
    next.ahead = member;
    this.#length += 1;
  }

  /** Takes a member out. It must be in this queue. */
  remove(member: T): void {
    if (member.ahead) member.ahead.behind = member.behind;
    else this.#head = member.behind;
    if (member.behind) member.behind.ahead = member.ahead;
    else this.#tail = member.ahead;
    member.ahead = undefined;
    member.behind = undefined;
    this.#length -= 1;
  }

  *[Symbol.iterator](): Generator<T> {
    for (let member = this.#head; member; member = member.behind) yield member;
  }
}
