import { SocketSession } from "../../core/session/socket-session.ts";
import type { Env } from "../env.ts";
import { SessionListing } from "../session-common/session-listing.ts";
import { type CommonParts, commonPartsOf } from "../session-common/session-parts.ts";
import { type EffectHandlers, SessionRunner } from "../session-common/session-runner.ts";
import { ClientSockets } from "./client-sockets.ts";
import { Keepalives } from "./keepalives.ts";
import { SessionTelemetry } from "./session-telemetry.ts";

/** The parts of a `SessionObject`, which they share. */
export interface SocketSessionParts extends CommonParts {
  readonly session: SocketSession;
  readonly runner: SessionRunner;
  readonly sockets: ClientSockets;
  readonly keepalives: Keepalives;
  readonly listing: SessionListing;
  readonly telemetry: SessionTelemetry;
}

export function socketSessionPartsOf(ctx: DurableObjectState, env: Env, handlers: EffectHandlers): SocketSessionParts {
  const common = commonPartsOf(ctx, env);
  const session = new SocketSession(common.origin);
  const telemetry = new SessionTelemetry(common);
  const sockets = new ClientSockets(common.store, (bytes) => runner.run(() => session.received(bytes)));
  const keepalives = new Keepalives(ctx, () => session.requests.table.atWork > 0);
  const runner = new SessionRunner(session, {
    ...common,
    handlers,
    // Saves what a sleep would lose, and arms the read deadline.
    progressed: () => {
      const { conversation, isOver } = session;
      if (!conversation || isOver) return;
      sockets.current?.progressed(conversation);
      if (conversation.isKnown) common.wakeUp.by(conversation.readDeadline);
    },
  });
  return { ...common, session, runner, sockets, keepalives, listing: new SessionListing(common), telemetry };
}
