/** Long enough for a rush to share a commit; whoever needs to know sooner has it done at once. */
const GATHERED_MS = 50;

/** Gathers what comes from many callers at about the same time and does it in one step: together it costs one commit. */
export class Gathering {
  #tasks: (() => void)[] = [];
  #done: Promise<void> | undefined;

  /** Resolves when the task is done. */
  add(task: () => void): Promise<void> {
    this.#tasks.push(task);
    this.#done ??= scheduler.wait(GATHERED_MS).then(() => this.finish());
    return this.#done;
  }

  /** Does now what has been gathered so far. */
  finish(): void {
    const tasks = this.#tasks;
    this.#tasks = [];
    this.#done = undefined;
    for (const task of tasks) task();
  }
}
