import { Deadlines, type Due } from "../core/engine/deadlines.ts";
import type { Runtime } from "./runtime.ts";

/** Something that has to be done at a time. */
export interface Timed extends Due {
  /** The time has come. */
  fire(now: number): void;
}

/** Handled in one batch; after a restart many more may be due. */
const MAX_AT_ONCE = 1_000;
/** The machine's clock may be set: look at it this often. */
const LOOK_EVERY_MS = 1_000;

/** All deadlines of the process: one ordered queue, one timer. */
export class Timers {
  readonly #deadlines = new Deadlines<Timed>();
  readonly #runtime: Runtime;
  readonly #enter: (command: () => void) => void;
  #cancel = () => {};
  /** When the timer fires; -Infinity while it must not be set. */
  #firesAt = Number.POSITIVE_INFINITY;
  /** After a fault. */
  #pausesUntil = 0;

  constructor(runtime: Runtime, enter: (command: () => void) => void) {
    this.#runtime = runtime;
    this.#enter = enter;
  }

  /** Must be called when a deadline may have become earlier. */
  schedule(subject: Timed): void {
    this.#deadlines.schedule(subject);
    if (subject.scheduledAt < this.#firesAt) this.#arm(subject.scheduledAt);
  }

  stop(): void {
    this.#cancel();
    this.#firesAt = Number.NEGATIVE_INFINITY;
  }

  #arm(time: number): void {
    this.#cancel();
    this.#firesAt = time;
    if (time === Number.POSITIVE_INFINITY) return;
    const now = this.#runtime.now();
    const delayMs = Math.max(time - now, this.#pausesUntil - now, 0);
    this.#cancel = this.#runtime.after(Math.min(delayMs, LOOK_EVERY_MS), () => this.#enter(() => this.#fire()));
  }

  #fire(): void {
    const now = this.#runtime.now();
    this.#firesAt = Number.NEGATIVE_INFINITY;
    try {
      for (let count = 0; count < MAX_AT_ONCE; count += 1) {
        const due = this.#deadlines.takeDue(now);
        if (!due) break;
        this.#fireOne(due, now);
      }
    } finally {
      this.#arm(this.#deadlines.earliest());
    }
  }

  #fireOne(due: Timed, now: number): void {
    try {
      due.fire(now);
    } catch (error) {
      // At once, it would fail again, and everybody's batch with it.
      this.#pausesUntil = now + LOOK_EVERY_MS;
      throw error;
    } finally {
      this.#deadlines.schedule(due);
    }
  }
}
