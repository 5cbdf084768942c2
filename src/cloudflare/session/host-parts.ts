import { SocketSession } from "../../core/session/socket-session.ts";
import type { Activity } from "../awake/activity.ts";
import { bookWakeUp } from "../awake/awake-sessions.ts";
import type { Env } from "../env.ts";
import { type SessionParts, sessionPartsOf } from "../session-common/session-parts.ts";
import { type EffectHandlers, SessionRunner } from "../session-common/session-runner.ts";
import { ClientSockets } from "./client-sockets.ts";
import type { HostPlace } from "./host-place.ts";
import { Keepalives } from "./keepalives.ts";
import { Listing } from "./listing.ts";
import { pacedCalls, ReturnTurns } from "./paced-returns.ts";
import { SessionTelemetry } from "./session-telemetry.ts";

/** What the parts of a session's host share. */
export interface HostParts {
  readonly place: HostPlace;
  readonly env: Env;
  readonly own: SessionParts;
  readonly session: SocketSession;
  readonly runner: SessionRunner;
  readonly sockets: ClientSockets;
  readonly keepalives: Keepalives;
  readonly listing: Listing;
  readonly turns: ReturnTurns;
  readonly telemetry: SessionTelemetry;
}

export function hostPartsOf(place: HostPlace, env: Env, activity: Activity, handlers: EffectHandlers): HostParts {
  const own = sessionPartsOf(place, env, activity);
  const session = new SocketSession(own.origin);
  const telemetry = new SessionTelemetry(place, env, { session: own.session, debug: own.config.debug });
  const sockets = new ClientSockets(own.store, (bytes) => runner.run(() => session.received(bytes)));
  const turns = new ReturnTurns(own.config.resumeGraceMs);
  // A request that waits for its turn sends nothing, however long that takes.
  const keepalives = new Keepalives(place.autoResponse, () => session.requests.table.atWork > turns.waiting);
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
    defer: (time) => bookWakeUp(env, time),
    pace: pacedCalls({ own, session, keepalives, turns }),
  });
  const listing = new Listing(env, own);
  return { place, env, own, session, runner, sockets, keepalives, listing, turns, telemetry };
}
