/** Virtual time, and chance that is the same in every run with the same seed. */
export class Scheduler {
  now = 1_000;
  readonly #tasks: { at: number; order: number; run: () => void }[] = [];
  #order = 0;
  #state: number;

  constructor(seed: number) {
    this.#state = (seed * 2_654_435_761) >>> 0;
  }

  /** 0 to 1. */
  random(): number {
    this.#state = (this.#state + 0x6d2b79f5) >>> 0;
    let mixed = this.#state;
    mixed = Math.imul(mixed ^ (mixed >>> 15), mixed | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  }

  between(min: number, max: number): number {
    return Math.floor(min + this.random() * (max - min + 1));
  }

  happens(probability: number): boolean {
    return this.random() < probability;
  }

  pick<T>(items: readonly T[]): T {
    return items[this.between(0, items.length - 1)] as T;
  }

  after(ms: number, run: () => void): void {
    const task = { at: this.now + ms, order: this.#order++, run };
    let at = this.#tasks.length;
    while (at > 0 && comesAfter(this.#tasks[at - 1] as typeof task, task)) at -= 1;
    this.#tasks.splice(at, 0, task);
  }

  /** Runs everything that is due up to this time. `check` runs after each task. */
  runUntil(time: number, check: () => void): void {
    for (let [task] = this.#tasks; task && task.at <= time; [task] = this.#tasks) {
      this.#tasks.shift();
      this.now = task.at;
      task.run();
      check();
    }
    this.now = time;
  }
}

function comesAfter(a: { at: number; order: number }, b: { at: number; order: number }): boolean {
  return a.at > b.at || (a.at === b.at && a.order > b.order);
}
