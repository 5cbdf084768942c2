import { Deadlines, type Due } from "../engine/deadlines.ts";

/** Something a session will do later unless its object is lost before. */
export class Timer implements Due {
  readonly action: () => void;
  /** Infinity once it is stopped. */
  dueAt: number;
  scheduledAt = Number.POSITIVE_INFINITY;

  constructor(time: number, action: () => void) {
    this.dueAt = time;
    this.action = action;
  }
}

/** Timers in memory. The host calls `run` when `next` has come. */
export class Timers {
  readonly #deadlines = new Deadlines<Timer>();

  /** Infinity if there is none. The host looks after every command, so this does not depend on how many there are. */
  get next(): number {
    return this.#deadlines.earliest();
  }

  at(time: number, action: () => void): Timer {
    const timer = new Timer(time, action);
    this.#deadlines.schedule(timer);
    return timer;
  }

  stop(timer: Timer | undefined): void {
    if (timer) timer.dueAt = Number.POSITIVE_INFINITY;
  }

  /** Runs what is due, oldest first. What is planned meanwhile has to wait for the next time. */
  run(now: number): void {
    const due: Timer[] = [];
    for (let timer = this.#deadlines.takeDue(now); timer; timer = this.#deadlines.takeDue(now)) due.push(timer);
    for (const timer of due) if (timer.dueAt <= now) timer.action();
  }
}
