import { isLimited, noteIdle, noteNotIdle, roomToIdle } from "../awake/awake-sessions.ts";
import { rest, settled, WAKE_UP_IS_NEAR_MS } from "../awake/resting.ts";
import type { HostParts } from "./host-parts.ts";

/** Where the number of idle sessions is limited: puts a session to rest, and makes room for it before it is idle. */
export class IdleLimit {
  readonly #host: HostParts;

  constructor(host: HostParts) {
    this.#host = host;
  }

  /**
   * Runs a task, and makes room for this session among the idle ones before it is answered: so the number of idle
   * sessions is bounded by the limit plus the number of concurrent requests.
   */
  atWork<Result>(task: () => Promise<Result>): Promise<Result> {
    const { env, own } = this.#host;
    noteNotIdle(own.session);
    return own.activity.during(async () => {
      try {
        return await task();
      } finally {
        await roomToIdle(env);
      }
    });
  }

  /** The last task in flight has ended. A session that is over has no reason to stay awake. */
  idle(): void {
    const { ctx, env, own, session } = this.#host;
    if (!isLimited(env) || !this.#isIdle) return;
    noteIdle(env, own.session);
    if (session.isOver && !session.isEnding) ctx.waitUntil(this.rest());
  }

  /** Closes the object's files, unless it is busy. */
  async rest(): Promise<void> {
    const { ctx, env, own, meter } = this.#host;
    const { session, activity, wakeUp } = own;
    const { begun } = activity;
    await meter.settled();
    await settled(ctx);
    if (!this.#isIdle) return;
    // The close of a poll may not have been handled yet.
    const isUnused = activity.begun === begun && ctx.getWebSockets().length === 0;
    if (isUnused && meter.isQuiet && !wakeUp.isNear(WAKE_UP_IS_NEAR_MS)) {
      noteNotIdle(session);
      rest(ctx);
    }
    noteIdle(env, session);
  }

  /** Nothing is in flight, and no client is waiting. */
  get #isIdle(): boolean {
    const { own, session, polls } = this.#host;
    return !own.activity.isBusy && !session.isBusy && !polls.isAnyOpen;
  }
}
