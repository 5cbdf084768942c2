import type { SocketSession } from "../../session/socket-session.ts";
import type { Env } from "../env.ts";
import type { SessionParts } from "../session-common/session-parts.ts";
import type { SessionRunner } from "../session-common/session-runner.ts";
import type { ClientSockets } from "./client-sockets.ts";
import type { Listing } from "./listing.ts";
import type { ReturnTurns } from "./paced-returns.ts";
import type { SessionTelemetry } from "./session-telemetry.ts";

/** What the parts of a session's host share. */
export interface HostParts {
  readonly ctx: DurableObjectState;
  readonly env: Env;
  readonly own: SessionParts;
  readonly session: SocketSession;
  readonly runner: SessionRunner;
  readonly sockets: ClientSockets;
  readonly listing: Listing;
  readonly turns: ReturnTurns;
  readonly telemetry: SessionTelemetry;
}
