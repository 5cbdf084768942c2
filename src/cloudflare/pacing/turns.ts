/** Long enough for the platform to process input from other clients. */
const PAUSE_MS = 1;

interface Limits {
  /** Concurrent tasks. */
  readonly width: number;
  /** Tasks started before a pause. */
  readonly perPause: number;
}

/**
 * Limits concurrency; excess tasks start in the order they arrived. Only for tasks of one object.
 *
 * workerd reads from sockets only when nothing else is left to do (workerd 2026-11), and calls between objects always
 * leave something to do. Without pauses, a client with many requests is served to the end before any other client is
 * read.
 */
export class Turns {
  readonly #limits: Limits;
  #running = 0;
  #startedSincePause = 0;
  #isPausing = false;
  readonly #queue: (() => void)[] = [];

  constructor(limits: Limits) {
    this.#limits = limits;
  }

  async run<Result>(task: () => Promise<Result>): Promise<Result> {
    // A task that finds a free turn starts synchronously: some requests must not be overtaken by the next one.
    if (this.#queue.length === 0 && this.#hasTurn()) this.#begin();
    else {
      const turn = new Promise<void>((resolve) => this.#queue.push(resolve));
      this.#startNext();
      await turn;
    }
    try {
      return await task();
    } finally {
      this.#running -= 1;
      this.#startNext();
    }
  }

  /** Other clients have been read since the last task ended: no pause is due. */
  rested(): void {
    this.#startedSincePause = 0;
  }

  #hasTurn(): boolean {
    return this.#running < this.#limits.width && this.#startedSincePause < this.#limits.perPause;
  }

  #begin(): void {
    this.#running += 1;
    this.#startedSincePause += 1;
  }

  #startNext(): void {
    while (this.#queue.length > 0 && this.#hasTurn()) {
      this.#begin();
      this.#queue.shift()?.();
    }
    if (this.#queue.length > 0 && this.#running < this.#limits.width && !this.#isPausing) void this.#pause();
  }

  async #pause(): Promise<void> {
    this.#isPausing = true;
    await scheduler.wait(PAUSE_MS);
    this.#isPausing = false;
    this.#startedSincePause = 0;
    this.#startNext();
  }
}
