/** Something with a deadline; `dueAt` is Infinity when it has none. */
export interface Due {
  readonly dueAt: number;
  /** When `Deadlines` will next look at it; maintained by `Deadlines`. */
  scheduledAt: number;
}

interface HeapItem<T> {
  readonly at: number;
  readonly subject: T;
}

/** The heap is swept after growing by at least this many items. */
const SWEEP_AFTER = 64;

/**
 * Which of many subjects is due next. When a deadline moves later the heap is not touched: the old item comes up, is
 * found to be early, and goes back in. So a renewal costs nothing here. Items of subjects without a deadline are swept
 * out before they outnumber the others.
 */
export class Deadlines<T extends Due> {
  #heap: HeapItem<T>[] = [];
  #sweepAt = SWEEP_AFTER;

  /** Must be called when a subject's deadline may have become earlier. */
  schedule(subject: T): void {
    if (subject.dueAt >= subject.scheduledAt) return;
    subject.scheduledAt = subject.dueAt;
    this.#push({ at: subject.dueAt, subject });
    if (this.#heap.length >= this.#sweepAt) this.#sweep();
  }

  /** Items in the heap, for tests. */
  get size(): number {
    return this.#heap.length;
  }

  /** The earliest deadline of any subject; Infinity if there is none. */
  earliest(): number {
    this.#settleTop();
    return this.#heap[0]?.at ?? Number.POSITIVE_INFINITY;
  }

  /** Removes and returns a subject whose deadline has come, earliest first. */
  takeDue(now: number): T | undefined {
    this.#settleTop();
    const top = this.#heap[0];
    if (!top || top.at > now) return undefined;
    this.#pop();
    top.subject.scheduledAt = Number.POSITIVE_INFINITY;
    return top.subject;
  }

  /** Brings a current deadline to the top: outdated items are dropped or moved. */
  #settleTop(): void {
    for (let top = this.#heap[0]; top; top = this.#heap[0]) {
      const { at, subject } = top;
      const isCurrent = at === subject.scheduledAt;
      if (isCurrent && subject.dueAt <= at) return;
      this.#pop();
      if (!isCurrent) continue;
      subject.scheduledAt = Number.POSITIVE_INFINITY;
      this.schedule(subject);
    }
  }

  #sweep(): void {
    const items = this.#heap;
    this.#heap = [];
    for (const item of items) {
      const { at, subject } = item;
      if (at !== subject.scheduledAt) continue;
      if (subject.dueAt === Number.POSITIVE_INFINITY) subject.scheduledAt = subject.dueAt;
      else this.#push(item);
    }
    this.#sweepAt = SWEEP_AFTER + 2 * this.#heap.length;
  }

  #push(item: HeapItem<T>): void {
    const heap = this.#heap;
    let child = heap.push(item) - 1;
    while (child > 0) {
      const parent = (child - 1) >> 1;
      const above = heap[parent] as HeapItem<T>;
      if (above.at <= item.at) break;
      heap[child] = above;
      child = parent;
    }
    heap[child] = item;
  }

  #pop(): void {
    const heap = this.#heap;
    const last = heap.pop();
    if (!last || heap.length === 0) return;
    let parent = 0;
    for (;;) {
      let child = 2 * parent + 1;
      if (child >= heap.length) break;
      if (child + 1 < heap.length && (heap[child + 1] as HeapItem<T>).at < (heap[child] as HeapItem<T>).at) child += 1;
      const below = heap[child] as HeapItem<T>;
      if (below.at >= last.at) break;
      heap[parent] = below;
      parent = child;
    }
    heap[parent] = last;
  }
}
