import type { Bookkeeping } from "./bookkeeping.ts";
import type { CommandContext } from "./commands.ts";
import type { Holds } from "./holds.ts";
import { earliestWake, FEW_HOLDS } from "./slots.ts";
import type { WaitQueue } from "./waiters.ts";

/** When a key has to be woken, and when it may be forgotten. */
export class Idleness {
  readonly #books: Bookkeeping;
  readonly #holds: Holds;
  readonly #queue: WaitQueue;

  constructor(books: Bookkeeping, holds: Holds, queue: WaitQueue) {
    this.#books = books;
    this.#holds = holds;
    this.#queue = queue;
  }

  /** The key has no holder and no waiter. */
  get isIdle(): boolean {
    return this.#holds.count === 0 && this.#queue.length === 0;
  }

  /** When the key was last used, if it is idle. */
  get since(): number | undefined {
    return this.isIdle ? this.#books.lastActivity : undefined;
  }

  /** A session has yet to be told how its wait ended. */
  get hasNews(): boolean {
    return this.#books.requests.size > this.#holds.count + this.#queue.length;
  }

  isLongerThan(gcMaxIdleMs: number, { now }: Pick<CommandContext, "now">): boolean {
    return this.isIdle && now - this.#books.lastActivity > gcMaxIdleMs;
  }

  /** See `KeyEngine.nextWake`. */
  nextWake({ gcMaxIdleMs, graceMs, isExact }: { gcMaxIdleMs: number; graceMs: number; isExact?: true }): number {
    const isDone = this.isIdle && !this.hasNews;
    const idleEnds = isDone ? this.#books.lastActivity + gcMaxIdleMs + 1 + graceMs : Number.POSITIVE_INFINITY;
    const mustLook = isExact || this.#queue.length > 0 || this.hasNews || this.#holds.count > FEW_HOLDS;
    return Math.min(mustLook ? this.#books.deadlines.earliest() : earliestWake(this.#holds), idleEnds);
  }
}
