/**
 * Requests that are begun in one turn of the event loop: about ten milliseconds of work. The commands of clients on
 * sockets have a share of each turn as well (`batch.ts`), so thousands of requests at once do not hold them up.
 */
const MAX_PER_TURN = 64;

/** Begins requests in the order in which they arrive, a bounded number in each turn. */
export class Pace {
  readonly #nextTurn: (callback: () => void) => void;
  #waiting: (() => void)[] = [];
  #begun = 0;

  constructor(nextTurn: (callback: () => void) => void = (callback) => void setImmediate(callback)) {
    this.#nextTurn = nextTurn;
  }

  /** Begins now, or in a later turn. */
  begin(request: () => void): void {
    if (this.#waiting.length > 0 || this.#begun === MAX_PER_TURN) this.#waiting.push(request);
    else this.#run(request);
  }

  #run(request: () => void): void {
    if (this.#begun === 0) this.#nextTurn(() => this.#goOn());
    this.#begun += 1;
    request();
  }

  #goOn(): void {
    this.#begun = 0;
    for (const request of this.#waiting.splice(0, MAX_PER_TURN)) this.#run(request);
  }
}
