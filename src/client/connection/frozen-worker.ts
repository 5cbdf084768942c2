import { type Clock, elapsedMs, type Moment, momentOf } from "../clock.ts";
import { FREEZE_CHECK_MS, FROZEN_AFTER_MS, THAW_MS } from "../limits.ts";

/**
 * Detects that a dedicated worker was frozen with its page. When the page thaws, browsers close the worker's sockets in
 * its name, which ends the session, and the worker learns of a broken connection a tenth of a second later (Chromium
 * 153). There is no event for it: until the service has answered after that, the session is in doubt.
 */
export class FreezeDetector {
  readonly #clock: Clock;
  readonly #isPossible = "DedicatedWorkerGlobalScope" in globalThis;
  #ranAt: Moment | undefined;
  #noticedAt: Moment | undefined;
  #cancel: () => void = () => {};

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Whether the session may be gone. */
  get isInDoubt(): boolean {
    return this.#noticedAt !== undefined || this.#isLate;
  }

  /** Starts to watch a new connection. Calls `ask` when the service should be asked whether the session exists. */
  begin(ask: () => void): void {
    this.#noticedAt = undefined;
    if (this.#isPossible) this.#watch(ask);
  }

  /** A request that was sent at this moment has been answered. */
  proved({ steady }: Moment): void {
    if (this.#noticedAt && steady >= this.#noticedAt.steady + THAW_MS) this.#noticedAt = undefined;
  }

  end(): void {
    if (this.#isLate) this.#noticedAt = this.#ranAt;
    this.#ranAt = undefined;
    this.#cancel();
  }

  get #isLate(): boolean {
    return this.#ranAt !== undefined && elapsedMs(this.#clock, this.#ranAt) > FROZEN_AFTER_MS;
  }

  #watch(ask: () => void): void {
    this.#ranAt = momentOf(this.#clock);
    this.#cancel = this.#clock.after(FREEZE_CHECK_MS, () => {
      const isLate = this.#isLate;
      this.#watch(ask);
      if (isLate) this.#noticedAt = this.#ranAt;
      if (this.#noticedAt && elapsedMs(this.#clock, this.#noticedAt) >= THAW_MS) ask();
    });
  }
}
