import { PolledSession } from "../../core/session/polled-session.ts";
import type { Activity } from "../awake/activity.ts";
import { bookWakeUp } from "../awake/awake-sessions.ts";
import { WakeUp } from "../awake/wake-up.ts";
import type { Env } from "../env.ts";
import { Meter } from "../metrics/meter.ts";
import { type SessionParts, sessionPartsOf } from "../session-common/session-parts.ts";
import { OwnRows } from "../session-common/session-rows.ts";
import { type EffectHandlers, SessionRunner } from "../session-common/session-runner.ts";
import { Polls } from "./polls.ts";

/** What the parts of a session's host share. */
export interface HostParts {
  readonly ctx: DurableObjectState;
  readonly env: Env;
  readonly own: SessionParts;
  readonly session: PolledSession;
  readonly runner: SessionRunner;
  readonly polls: Polls;
  readonly wakeUp: WakeUp;
  readonly meter: Meter;
}

export function hostPartsOf(
  ctx: DurableObjectState,
  env: Env,
  activity: Activity,
  handlers: EffectHandlers,
): HostParts {
  const place = {
    // Objects of sessions are only ever addressed by name.
    session: ctx.id.name as string,
    rows: new OwnRows(ctx.storage),
    wakeUp: new WakeUp(ctx.storage, (time) => bookWakeUp(env, time)),
  };
  const own = sessionPartsOf(place, env, activity);
  const meter = new Meter(env, (promise) => ctx.waitUntil(promise));
  const polls = new Polls(ctx, meter);
  const session = new PolledSession(own.origin, polls.all);
  const runner = new SessionRunner(session, { ...own, handlers });
  return { ctx, env, own, session, runner, polls, wakeUp: place.wakeUp, meter };
}
