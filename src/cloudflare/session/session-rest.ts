import { WAKE_UP_IS_NEAR_MS } from "../awake/resting.ts";
import type { HostParts } from "./host-parts.ts";

/** How often a session without a client checks for a report in flight and an open socket before it rests anyway. */
const MAX_LOOKS = 20;

/**
 * Self-hosted, a session without a client closes its files as soon as nothing is in flight: otherwise clients that come
 * and go would use up all open files. Everything it needs is stored, and the next call wakes it.
 */
export class SessionRest {
  readonly #host: HostParts;
  #isAboutTo = false;

  constructor(host: HostParts) {
    this.#host = host;
  }

  /** Rests as soon as possible, if the session may. */
  soon(): void {
    if (this.#isAboutTo || !this.#mayRest) return;
    this.#isAboutTo = true;
    this.#host.place.waitUntil(
      this.#rest().finally(() => {
        this.#isAboutTo = false;
      }),
    );
  }

  async #rest(): Promise<void> {
    const { place, own, telemetry } = this.#host;
    for (let looks = 1; this.#mayRest; looks++) {
      const { begun } = own.activity;
      await telemetry.settled();
      await place.settled();
      const isQuiet = telemetry.isQuiet && place.sockets().length === 0;
      if ((isQuiet || looks >= MAX_LOOKS) && own.activity.begun === begun && this.#mayRest) {
        place.rest();
        return;
      }
    }
  }

  /** No client is connected, nothing is in flight, and everything known is stored. */
  get #mayRest(): boolean {
    const { own, session } = this.#host;
    if (own.activity.isBusy || session.hasClient || session.isBusy) return false;
    // A departure that continues from the alarm keeps its retry delay in memory.
    return (session.isOver || session.resumption.isKept) && !session.isEnding && !own.wakeUp.isNear(WAKE_UP_IS_NEAR_MS);
  }
}
