/** Something a session will do later unless its object is lost before. */
export interface Timer {
  readonly time: number;
  readonly action: () => void;
}

/** Timers in memory. The host calls `run` when `next` has come. */
export class Timers {
  readonly #timers = new Set<Timer>();

  /** Infinity if there is none. */
  get next(): number {
    let next = Number.POSITIVE_INFINITY;
    for (const { time } of this.#timers) if (time < next) next = time;
    return next;
  }

  at(time: number, action: () => void): Timer {
    const timer = { time, action };
    this.#timers.add(timer);
    return timer;
  }

  stop(timer: Timer | undefined): void {
    if (timer) this.#timers.delete(timer);
  }

  /** Runs what is due, oldest first. */
  run(now: number): void {
    const due = [...this.#timers].filter(({ time }) => time <= now).sort((one, other) => one.time - other.time);
    for (const timer of due) if (this.#timers.delete(timer)) timer.action();
  }
}
