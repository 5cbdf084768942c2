import { SocketSession } from "../../core/session/socket-session.ts";
import type { Env } from "../env.ts";
import { type SessionParts, sessionPartsOf } from "../session-common/session-parts.ts";
import { type EffectHandlers, SessionRunner } from "../session-common/session-runner.ts";
import { ClientSockets } from "./client-sockets.ts";
import { Keepalives } from "./keepalives.ts";
import { Listing } from "./listing.ts";
import { SessionTelemetry } from "./session-telemetry.ts";

/** What the parts of a session's host share. */
export interface HostParts {
  readonly ctx: DurableObjectState;
  readonly env: Env;
  readonly own: SessionParts;
  readonly session: SocketSession;
  readonly runner: SessionRunner;
  readonly sockets: ClientSockets;
  readonly keepalives: Keepalives;
  readonly listing: Listing;
  readonly telemetry: SessionTelemetry;
}

export function hostPartsOf(ctx: DurableObjectState, env: Env, handlers: EffectHandlers): HostParts {
  const own = sessionPartsOf(ctx, env);
  const session = new SocketSession(own.origin);
  const telemetry = new SessionTelemetry(ctx, env, { session: own.session, debug: own.config.debug });
  const sockets = new ClientSockets(own.store, (bytes) => runner.run(() => session.received(bytes)));
  const keepalives = new Keepalives(ctx, () => session.requests.table.atWork > 0);
  const runner = new SessionRunner(session, {
    ...own,
    handlers,
    // Saves what a sleep would lose, and arms the read deadline.
    progressed: () => {
      const { conversation, isOver } = session;
      if (!conversation || isOver) return;
      sockets.current?.progressed(conversation);
      if (conversation.isKnown) own.wakeUp.by(conversation.readDeadline);
    },
  });
  const listing = new Listing(env, own);
  return { ctx, env, own, session, runner, sockets, keepalives, listing, telemetry };
}
