import type { Activity } from "../awake/activity.ts";
import { isLimited, noteIdle, noteNotIdle, roomToIdle } from "../awake/awake-sessions.ts";
import { rest, settled, WAKE_UP_IS_NEAR_MS } from "../awake/resting.ts";
import type { WakeUp } from "../awake/wake-up.ts";
import type { Env } from "../env.ts";
import type { Meter } from "../metrics/meter.ts";

interface Parts {
  readonly ctx: DurableObjectState;
  readonly env: Env;
  readonly session: string;
  readonly activity: Activity;
  readonly wakeUp: WakeUp;
  readonly meter: Meter;
}

/** Where the number of idle sessions is limited: puts a session to rest, and makes room for it before it is idle. */
export class IdleLimit {
  readonly #parts: Parts;
  readonly #isIdle: () => boolean;

  /** `isIdle`: nothing is in flight, and no client is waiting. */
  constructor(parts: Parts, isIdle: () => boolean) {
    this.#parts = parts;
    this.#isIdle = isIdle;
  }

  /**
   * Runs a task, and makes room for this session among the idle ones before it is answered: so the number of idle
   * sessions is bounded by the limit plus the number of concurrent requests.
   */
  atWork<Result>(task: () => Promise<Result>): Promise<Result> {
    const { env, session, activity } = this.#parts;
    noteNotIdle(session);
    return activity.during(async () => {
      try {
        return await task();
      } finally {
        await roomToIdle(env);
      }
    });
  }

  /** The last task in flight has ended. A session that is over has no reason to stay awake. */
  idle({ isOver }: { readonly isOver: boolean }): void {
    const { ctx, env, session } = this.#parts;
    if (!isLimited(env) || !this.#isIdle()) return;
    noteIdle(env, session);
    if (isOver) ctx.waitUntil(this.rest());
  }

  /** Closes the object's files, unless it is busy. */
  async rest(): Promise<void> {
    const { ctx, env, session, activity, wakeUp, meter } = this.#parts;
    const { begun } = activity;
    await meter.settled();
    await settled(ctx);
    if (!this.#isIdle()) return;
    // The close of a poll may not have been handled yet.
    const isUnused = activity.begun === begun && ctx.getWebSockets().length === 0;
    if (isUnused && meter.isQuiet && !wakeUp.isNear(WAKE_UP_IS_NEAR_MS)) {
      noteNotIdle(session);
      rest(ctx);
    }
    noteIdle(env, session);
  }
}
