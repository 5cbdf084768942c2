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
  #isPaused = false;

  constructor(runtime: Runtime, enter: (command: () => void) => void) {
    this.#runtime = runtime;
    this.#enter = enter;
  }

  /** Must be called when a deadline may have become earlier. */
  schedule(subject: Timed): void {
    this.#deadlines.schedule(subject);
    if (subject.scheduledAt < this.#firesAt) this.#arm(subject.scheduledAt);
  }

  /** Nothing fires until `resume`. */
  pause(): void {
    this.#cancel();
    this.#isPaused = true;
    this.#firesAt = Number.NEGATIVE_INFINITY;
  }

  resume(): void {
    this.#isPaused = false;
    this.#arm(this.#deadlines.earliest());
  }

  #arm(time: number): void {
    this.#cancel();
    this.#firesAt = time;
    if (time === Number.POSITIVE_INFINITY) return;
    const delayMs = Math.min(Math.max(time - this.#runtime.now(), 0), LOOK_EVERY_MS);
    this.#cancel = this.#runtime.after(delayMs, () => this.#enter(() => this.#fire()));
  }

  #fire(): void {
    if (this.#isPaused) return;
    const now = this.#runtime.now();
    this.#firesAt = Number.NEGATIVE_INFINITY;
    try {
      for (let count = 0; count < MAX_AT_ONCE; count += 1) {
        const due = this.#deadlines.takeDue(now);
        if (!due) break;
        try {
          due.fire(now);
        } finally {
          this.#deadlines.schedule(due);
        }
      }
    } finally {
      this.#arm(this.#deadlines.earliest());
    }
  }
}
