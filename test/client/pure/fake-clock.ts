import type { Clock } from "../../../src/client/clock.ts";

interface Timer {
  readonly at: number;
  readonly call: () => void;
}

/** Lets everything run that only waits for promises. */
export const settled = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

/** Time that passes when a test says so, on two clocks that need not agree. */
export class FakeClock implements Clock {
  readonly #timers = new Set<Timer>();
  #steady = 1_000;
  #wall = 1_800_000_000_000;
  #slept = 0;

  /** What time it really is; neither clock may know. */
  get truth(): number {
    return this.#steady + this.#slept;
  }

  wall(): number {
    return this.#wall;
  }

  steady(): number {
    return this.#steady;
  }

  after(ms: number, call: () => void): () => void {
    if (!(ms >= 0)) throw new Error(`a timer over ${ms} ms`);
    const timer = { at: this.#steady + ms, call };
    this.#timers.add(timer);
    return () => this.#timers.delete(timer);
  }

  /** How many timers are armed. */
  get timers(): number {
    return this.#timers.size;
  }

  /** Time passes, and every timer fires when it is due. */
  async pass(ms: number): Promise<void> {
    const end = this.#steady + ms;
    await settled();
    for (let next = this.#next(end); next; next = this.#next(end)) {
      this.#forward(Math.max(0, next.at - this.#steady));
      await this.#fire(next);
    }
    this.#forward(end - this.#steady);
    await settled();
  }

  /** Time passes while nothing runs: a stopped program. Then everything runs that is overdue. */
  async freeze(ms: number): Promise<void> {
    this.#forward(ms);
    await this.#fireOverdue();
  }

  /** The machine sleeps: its wall clock goes on, the other one and with it all timers stand still. */
  sleep(ms: number): void {
    this.#wall += ms;
    this.#slept += ms;
  }

  /** Somebody sets the wall clock. */
  setWall(byMs: number): void {
    this.#wall += byMs;
  }

  async #fireOverdue(): Promise<void> {
    for (let next = this.#next(this.#steady); next; next = this.#next(this.#steady)) await this.#fire(next);
    await settled();
  }

  #forward(ms: number): void {
    this.#steady += ms;
    this.#wall += ms;
  }

  async #fire(timer: Timer): Promise<void> {
    this.#timers.delete(timer);
    timer.call();
    await settled();
  }

  #next(end: number): Timer | undefined {
    let next: Timer | undefined;
    for (const timer of this.#timers) if (timer.at <= end && (!next || timer.at < next.at)) next = timer;
    return next;
  }
}
