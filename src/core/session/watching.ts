import type { SessionContext } from "./context.ts";
import { RETRY_PAUSES_MS } from "./withdrawals.ts";

/** Keys that are told at a time: the client's own requests must not wait behind them. */
const MAX_AT_ONCE = 4;

/**
 * Tells keys that the session wants to hear at once when a lease of its own ends. Requests say so themselves; this is for
 * keys that were used before. One that cannot be reached is told again while the object lives; after that, when the client
 * watches again on its next socket.
 */
export class Watching {
  readonly #context: SessionContext;
  readonly #isOver: () => boolean;
  readonly #keys: { readonly key: string; readonly attempt: number }[] = [];
  #isOn = false;
  #inFlight = 0;
  #hasMissed = false;

  constructor(context: SessionContext, isOver: () => boolean) {
    this.#context = context;
    this.#isOver = isOver;
  }

  /** The session wants to hear of its leases. */
  get isOn(): boolean {
    return this.#isOn;
  }

  /** Every key has been told, or will be. */
  get isComplete(): boolean {
    return this.#isOn && !this.#hasMissed;
  }

  begin(keys: readonly string[]): void {
    this.#isOn = true;
    this.#hasMissed = false;
    for (const key of keys) this.#keys.push({ key, attempt: 0 });
    this.#goOn();
  }

  tell(key: string): void {
    this.#keys.push({ key, attempt: 0 });
    this.#goOn();
  }

  #goOn(): void {
    if (this.#isOver()) return;
    while (this.#inFlight < MAX_AT_ONCE) {
      const next = this.#keys.shift();
      if (!next) break;
      this.#inFlight += 1;
      this.#tell(next.key, next.attempt);
    }
  }

  #tell(key: string, attempt: number): void {
    const { session, timers } = this.#context;
    const answered = () => {
      this.#inFlight -= 1;
      this.#goOn();
    };
    const failed = () => {
      const pauseMs = RETRY_PAUSES_MS[attempt];
      if (pauseMs === undefined) this.#hasMissed = true;
      else {
        timers.at(this.#context.now + pauseMs, () => {
          this.#keys.push({ key, attempt: attempt + 1 });
          this.#goOn();
        });
      }
      answered();
    };
    this.#context.callKey(key, { type: "watch", session }, { mayRepeat: () => !this.#isOver(), answered, failed });
  }
}
