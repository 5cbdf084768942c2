/** Long answers that are found at a time. Each is at work for milliseconds in every batch. */
const MAX_LONG = 2;
/** Long answers that one address may wait for. A client that hangs up leaves its question behind. */
const MAX_WAITING = 256;

interface Shared {
  readonly question: string;
  readonly answer: Promise<unknown>;
  /** Finds the answer. Resolves when that is over. */
  readonly begin: () => Promise<void>;
  /** The addresses that wait for it. */
  readonly askers: Set<string>;
}

/**
 * Answers to equal questions are found once, after the batch in which they were asked: none is older than its question.
 * Those that take long are found two at a time, and one for each address, however many questions it asks; addresses take
 * turns. An address with too many questions is refused more.
 */
export class SharedAnswers {
  readonly #afterBatch: (callback: () => void) => void;
  /** What is asked, until its answer is begun. */
  readonly #asked = new Map<string, Shared>();
  /** Questions with long answers in the order in which they were asked, by address. The next address comes first. */
  readonly #waiting = new Map<string, Set<Shared>>();
  /** Addresses for which a long answer is being found. */
  readonly #served = new Set<string>();

  constructor(afterBatch: (callback: () => void) => void) {
    this.#afterBatch = afterBatch;
  }

  /** `address` asks; without it, the answer is a short one. */
  share<Answer>(question: string, find: () => Promise<Answer>, address?: string): Promise<Answer> {
    const asked = this.#asked.get(question);
    if (address !== undefined && this.#hasTooMany(address, asked))
      return Promise.reject(new Error(`${address} waits for ${MAX_WAITING} reports already`));
    const shared = asked ?? this.#ask(question, find, address);
    if (address !== undefined) {
      const questions = this.#waiting.get(address) ?? new Set();
      this.#waiting.set(address, questions.add(shared));
      shared.askers.add(address);
    }
    return shared.answer as Promise<Answer>;
  }

  /** Whether this question would be one too many. One that the address waits for anyway is not. */
  #hasTooMany(address: string, asked: Shared | undefined): boolean {
    const questions = this.#waiting.get(address);
    if (!questions || questions.size < MAX_WAITING) return false;
    return !(asked && questions.has(asked));
  }

  #ask<Answer>(question: string, find: () => Promise<Answer>, address: string | undefined): Shared {
    const { promise, resolve } = Promise.withResolvers<Answer>();
    const begin = async () => {
      this.#asked.delete(question);
      const finding = find();
      resolve(finding);
      // Who has asked hears of a failure.
      await finding.catch(() => {});
    };
    const shared = { question, answer: promise, begin, askers: new Set<string>() };
    this.#asked.set(question, shared);
    this.#afterBatch(() => void (address === undefined ? begin() : this.#serve()));
    return shared;
  }

  #serve(): void {
    for (const [address, questions] of this.#waiting) {
      if (this.#served.size === MAX_LONG) return;
      const [next] = questions;
      if (next && !this.#served.has(address)) void this.#find(next, address);
    }
  }

  async #find(shared: Shared, address: string): Promise<void> {
    this.#served.add(address);
    for (const asker of shared.askers) {
      const questions = this.#waiting.get(asker);
      if (questions?.delete(shared) && questions.size === 0) this.#waiting.delete(asker);
    }
    await shared.begin();
    this.#served.delete(address);
    const questions = this.#waiting.get(address);
    if (questions) {
      // The others come first.
      this.#waiting.delete(address);
      this.#waiting.set(address, questions);
    }
    this.#serve();
  }
}
