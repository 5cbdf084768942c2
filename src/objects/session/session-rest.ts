import type { Activity } from "../awake/activity.ts";
import { rest, settled } from "../awake/resting.ts";

/** How often a session without a client checks for a report in flight and an open socket before it rests anyway. */
const MAX_LOOKS = 20;

interface Resting {
  /** Resolves when no report of what was counted is in flight. */
  settle(): Promise<void> | undefined;
  /** No report of what was counted is in flight. */
  isQuiet(): boolean;
  mayRest(): boolean;
}

/**
 * Self-hosted, a session without a client closes its files as soon as nothing is in flight: otherwise clients that come
 * and go would use up all open files. Everything it needs is stored, and the next call wakes it.
 */
export class SessionRest {
  readonly #ctx: DurableObjectState;
  readonly #activity: Activity;
  readonly #session: Resting;
  #isAboutTo = false;

  constructor(ctx: DurableObjectState, activity: Activity, session: Resting) {
    this.#ctx = ctx;
    this.#activity = activity;
    this.#session = session;
  }

  /** Rests as soon as possible, if the session may. */
  soon(): void {
    if (this.#isAboutTo || !this.#session.mayRest()) return;
    this.#isAboutTo = true;
    this.#ctx.waitUntil(
      this.#rest().finally(() => {
        this.#isAboutTo = false;
      }),
    );
  }

  async #rest(): Promise<void> {
    for (let looks = 1; this.#session.mayRest(); looks++) {
      const { begun } = this.#activity;
      await this.#session.settle();
      await settled(this.#ctx);
      const isQuiet = this.#session.isQuiet() && this.#ctx.getWebSockets().length === 0;
      if ((isQuiet || looks >= MAX_LOOKS) && this.#activity.begun === begun && this.#session.mayRest()) rest(this.#ctx);
    }
  }
}
