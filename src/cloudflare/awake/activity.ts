/** Tracks whether an object is busy, so that it is put to rest only while idle. */
export class Activity {
  readonly #whenIdle: () => void;
  #underWay = 0;
  #begun = 0;

  /** `whenIdle` is called whenever the last running task has ended. */
  constructor(whenIdle: () => void = () => {}) {
    this.#whenIdle = whenIdle;
  }

  get isBusy(): boolean {
    return this.#underWay > 0;
  }

  /** Incremented with every task that begins. */
  get begun(): number {
    return this.#begun;
  }

  async during<Result>(task: () => Promise<Result>): Promise<Result> {
    this.#underWay += 1;
    this.#begun += 1;
    try {
      return await task();
    } finally {
      this.#underWay -= 1;
      if (this.#underWay === 0) this.#whenIdle();
    }
  }
}
