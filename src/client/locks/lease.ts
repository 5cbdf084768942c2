import { type Clock, elapsedMs, type Moment } from "../clock.ts";
import { SAFE_PART } from "../limits.ts";
import { WANTED } from "../wire.ts";

/**
 * For how long a lock is surely held. The service counts a lease from when it carried the request out, we count it from
 * when the request was sent: our end of it comes first.
 */
export class Lease {
  readonly seconds: number;
  /** The service has said so to a holder that asked. */
  readonly isWanted: boolean;
  readonly #clock: Clock;
  readonly #since: Moment;

  /** `text`: the seconds, and whether somebody else wants the key. */
  constructor(clock: Clock, text: string, sentAt: Moment) {
    this.#clock = clock;
    this.seconds = Number.parseInt(text, 10);
    this.isWanted = text.endsWith(WANTED);
    this.#since = sentAt;
  }

  get ms(): number {
    return this.seconds * 1000;
  }

  get elapsedMs(): number {
    return elapsedMs(this.#clock, this.#since);
  }

  /** Not positive: it may be somebody else's by now. */
  get remainingMs(): number {
    return this.ms * SAFE_PART - this.elapsedMs;
  }

  /** A third of it is over. */
  get isDue(): boolean {
    return this.elapsedMs >= this.ms / 3;
  }
}
