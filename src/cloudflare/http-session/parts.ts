import { PolledSession } from "../../core/session/polled-session.ts";
import type { Env } from "../env.ts";
import { Meter } from "../metrics/meter.ts";
import { SessionListing } from "../session-common/session-listing.ts";
import { type CommonParts, commonPartsOf } from "../session-common/session-parts.ts";
import { type EffectHandlers, SessionRunner } from "../session-common/session-runner.ts";
import { Polls } from "./polls.ts";

/** The parts of an `HttpSessionObject`, which they share. */
export interface HttpSessionParts extends CommonParts {
  readonly session: PolledSession;
  readonly runner: SessionRunner;
  readonly polls: Polls;
  readonly listing: SessionListing;
  readonly meter: Meter;
}

export function httpSessionPartsOf(ctx: DurableObjectState, env: Env, handlers: EffectHandlers): HttpSessionParts {
  const common = commonPartsOf(ctx, env);
  const meter = new Meter(env, (promise) => ctx.waitUntil(promise));
  const polls = new Polls(ctx, meter);
  const session = new PolledSession(common.origin, polls.all);
  const runner = new SessionRunner(session, { ...common, handlers });
  return { ...common, session, runner, polls, listing: new SessionListing(common), meter };
}
