/** Something that wants attention at `dueAt`; Infinity when it wants none. */
export interface Due {
  readonly dueAt: number;
  /** When the schedule will next look at it; kept by the schedule. */
  scheduledAt: number;
}

interface Entry<T> {
  readonly at: number;
  readonly subject: T;
}

/** The heap is swept when it has grown by this many entries at least. */
const SWEEP_AFTER = 64;

/**
 * Which of many subjects is due next. A subject whose deadline moves later is not touched: its old entry turns up,
 * is found early, and goes back in. So renewing costs nothing here. Entries of subjects that want no attention any
 * more are swept out before they outnumber the others.
 */
export class Deadlines<T extends Due> {
  #heap: Entry<T>[] = [];
  #sweepAt = SWEEP_AFTER;

  /** Must be called when a subject's deadline may have become earlier. */
  schedule(subject: T): void {
    if (subject.dueAt >= subject.scheduledAt) return;
    subject.scheduledAt = subject.dueAt;
    this.#push({ at: subject.dueAt, subject });
    if (this.#heap.length >= this.#sweepAt) this.#sweep();
  }

  /** How many entries are kept, for whoever wants to see that they are few. */
  get size(): number {
    return this.#heap.length;
  }

  /** The earliest deadline of any subject; Infinity if there is none. */
  earliest(): number {
    this.#settleTop();
    return this.#heap[0]?.at ?? Number.POSITIVE_INFINITY;
  }

  /** Takes out and returns a subject whose deadline has come, earliest first. */
  takeDue(now: number): T | undefined {
    this.#settleTop();
    const top = this.#heap[0];
    if (!top || top.at > now) return undefined;
    this.#pop();
    top.subject.scheduledAt = Number.POSITIVE_INFINITY;
    return top.subject;
  }

  /** Brings a true deadline to the top: outdated entries are dropped or put where they belong. */
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
    const entries = this.#heap;
    this.#heap = [];
    for (const entry of entries) {
      const { at, subject } = entry;
      if (at !== subject.scheduledAt) continue;
      if (subject.dueAt === Number.POSITIVE_INFINITY) subject.scheduledAt = subject.dueAt;
      else this.#push(entry);
    }
    this.#sweepAt = SWEEP_AFTER + 2 * this.#heap.length;
  }

  #push(entry: Entry<T>): void {
    const heap = this.#heap;
    let child = heap.push(entry) - 1;
    while (child > 0) {
      const parent = (child - 1) >> 1;
      const above = heap[parent] as Entry<T>;
      if (above.at <= entry.at) break;
      heap[child] = above;
      child = parent;
    }
    heap[child] = entry;
  }

  #pop(): void {
    const heap = this.#heap;
    const last = heap.pop();
    if (!last || heap.length === 0) return;
    let parent = 0;
    for (;;) {
      let child = 2 * parent + 1;
      if (child >= heap.length) break;
      if (child + 1 < heap.length && (heap[child + 1] as Entry<T>).at < (heap[child] as Entry<T>).at) child += 1;
      const below = heap[child] as Entry<T>;
      if (below.at >= last.at) break;
      heap[parent] = below;
      parent = child;
    }
    heap[parent] = last;
  }
}
