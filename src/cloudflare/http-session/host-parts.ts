import { PolledSession } from "../../core/session/polled-session.ts";
import type { Env } from "../env.ts";
import { Meter } from "../metrics/meter.ts";
import { type SessionParts, sessionPartsOf } from "../session-common/session-parts.ts";
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
  readonly meter: Meter;
}

export function hostPartsOf(ctx: DurableObjectState, env: Env, handlers: EffectHandlers): HostParts {
  const own = sessionPartsOf(ctx, env);
  const meter = new Meter(env, (promise) => ctx.waitUntil(promise));
  const polls = new Polls(ctx, meter);
  const session = new PolledSession(own.origin, polls.all);
  const runner = new SessionRunner(session, { ...own, handlers });
  return { ctx, env, own, session, runner, polls, meter };
}
