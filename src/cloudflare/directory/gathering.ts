/** Long enough for a burst to share a commit; `finish` skips the wait. */
const GATHERED_MS = 50;

/** Batches tasks of many callers that arrive at about the same time: together they cost one commit. */
export class Gathering {
  #tasks: (() => void)[] = [];
  #done: Promise<void> | undefined;

  /** Resolves when the task is done. */
  add(task: () => void): Promise<void> {
    this.#tasks.push(task);
    this.#done ??= scheduler.wait(GATHERED_MS).then(() => this.finish());
    return this.#done;
  }

  /** Runs all batched tasks now. */
  finish(): void {
    const tasks = this.#tasks;
    this.#tasks = [];
    this.#done = undefined;
    for (const task of tasks) task();
  }
}
