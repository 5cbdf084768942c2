import { type Clock, elapsedMs, type Moment, momentOf } from "../clock.ts";
import { AFTERMATH_MS, LOOK_EVERY_MS, STOOD_STILL_MS } from "../limits.ts";

/**
 * Notices that a worker of a page has stood still with its page. When the page thaws, browsers close the worker's sockets in
 * its name, which ends the session, and tell the worker a tenth of a second later, of a broken connection (Chromium 153). No event
 * warns it: nothing is certain until the service has answered later than that.
 */
export class Standstill {
  readonly #clock: Clock;
  readonly #isPossible = "DedicatedWorkerGlobalScope" in globalThis;
  #ranAt: Moment | undefined;
  #noticedAt: Moment | undefined;
  #cancel: () => void = () => {};

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Nobody knows whether the session is still there. */
  get isInDoubt(): boolean {
    return this.#noticedAt !== undefined || this.#isLate;
  }

  /** There is a connection: looks out from now on, and calls back when the service is to be asked. */
  begin(ask: () => void): void {
    this.#noticedAt = undefined;
    if (this.#isPossible) this.#look(ask);
  }

  /** The service has answered what was sent at that moment. */
  proved({ steady }: Moment): void {
    if (this.#noticedAt && steady >= this.#noticedAt.steady + AFTERMATH_MS) this.#noticedAt = undefined;
  }

  end(): void {
    if (this.#isLate) this.#noticedAt = this.#ranAt;
    this.#ranAt = undefined;
    this.#cancel();
  }

  get #isLate(): boolean {
    return this.#ranAt !== undefined && elapsedMs(this.#clock, this.#ranAt) > STOOD_STILL_MS;
  }

  #look(ask: () => void): void {
    this.#ranAt = momentOf(this.#clock);
    this.#cancel = this.#clock.after(LOOK_EVERY_MS, () => {
      const isLate = this.#isLate;
      this.#look(ask);
      if (isLate) this.#noticedAt = this.#ranAt;
      if (this.#noticedAt && elapsedMs(this.#clock, this.#noticedAt) >= AFTERMATH_MS) ask();
    });
  }
}
