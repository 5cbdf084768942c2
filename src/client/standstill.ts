import { type Clock, elapsedMs, type Moment, momentOf } from "./clock.ts";

const LOOK_EVERY_MS = 250;
const STOOD_STILL_MS = 500;
/** What is answered within this time of a thaw proves nothing: the socket is closed a little later. */
const AFTERMATH_MS = 500;

/**
 * Notices that a worker of a page has stood still with its page. When the page thaws, browsers close the worker's sockets in
 * its name, which ends the session, and tell the worker a tenth of a second later, of a broken connection (Chromium 153). No event
 * warns it: nothing is certain until the service has answered later than that.
 */
export class Standstill {
  readonly #clock: Clock;
  readonly #isPossible = "WorkerNavigator" in globalThis;
  #ranAt: Moment | undefined;
  #noticedAt: Moment | undefined;
  #cancel: () => void = () => {};

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Nobody knows whether the session is still there. */
  get isInDoubt(): boolean {
    if (!this.#isPossible) return false;
    return this.#noticedAt !== undefined || !this.#ranAt || elapsedMs(this.#clock, this.#ranAt) > STOOD_STILL_MS;
  }

  /** There is a connection: looks out from now on, and calls back when the service is to be asked. */
  begin(ask: () => void): void {
    if (!this.#isPossible) return;
    this.#noticedAt = undefined;
    this.#ranAt = momentOf(this.#clock);
    this.#look(ask);
  }

  /** The service has answered what was sent at that moment. */
  proved({ steady }: Moment): void {
    if (this.#noticedAt && steady >= this.#noticedAt.steady + AFTERMATH_MS) this.#noticedAt = undefined;
  }

  /** Without a connection all is in doubt. */
  end(): void {
    this.#ranAt = undefined;
    this.#cancel();
  }

  #look(ask: () => void): void {
    this.#cancel = this.#clock.after(LOOK_EVERY_MS, () => {
      const { isInDoubt } = this;
      this.#ranAt = momentOf(this.#clock);
      if (isInDoubt) this.#noticedAt ??= this.#ranAt;
      if (this.#noticedAt && this.#ranAt.steady >= this.#noticedAt.steady + AFTERMATH_MS) ask();
      this.#look(ask);
    });
  }
}
