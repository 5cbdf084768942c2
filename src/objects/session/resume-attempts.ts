/** Clients that want to resume the session, by the number of their attempt. */
export class ResumeAttempts {
  readonly #open = new Map<number, (refusal: string | undefined) => void>();
  #last = 0;

  /** Resolves when the attempt is settled, with the reason if it is refused. */
  begin(start: (attempt: number) => void): Promise<string | undefined> {
    this.#last += 1;
    const { promise, resolve } = Promise.withResolvers<string | undefined>();
    this.#open.set(this.#last, resolve);
    start(this.#last);
    return promise;
  }

  settle(attempt: number, refusal: string | undefined): void {
    this.#open.get(attempt)?.(refusal);
    this.#open.delete(attempt);
  }
}
