import { hash } from "../../hash.ts";
import { randomHex } from "../../hex.ts";
import { callAwake } from "../awake/resting.ts";
import type { SessionKind } from "../directory/listed-sessions.ts";
import type { Env } from "../env.ts";
import type { Listener } from "./notices.ts";

/** Sessions of HTTP clients have names of their own kind, so that whoever has a name knows which object it leads to. */
const HTTP_PREFIX = "http:";

/** A session id: 128 random bits as 32 hex digits. It is never used twice. */
export function newSessionId(): string {
  return randomHex(16);
}

/** The name under which an HTTP session is known to keys and directory. */
export function httpSessionName(id: string): string {
  return HTTP_PREFIX + id;
}

/**
 * The number by which statistics name a session, or a holder without one: 1 to 2^52, made from its id. Two may share
 * it, so nothing is ever decided by it.
 */
export function ownerIdOf(session: string): number {
  // Whoever knows the id of an HTTP session may use it, so none of its digits may show.
  if (session.includes(":")) return hash(session) * 2 ** 20 + (hash(`owner of ${session}`) >>> 12) + 1;
  return Number.parseInt(session.slice(0, 13), 16) + 1;
}

/** Protocols whose holders have no session. */
export const SESSIONLESS = ["file", "terraform"] as const;
export type SessionlessProtocol = (typeof SESSIONLESS)[number];

/** As whom a holder speaks to the service. WebSocket and TCP clients speak dflockd's protocol. */
export type Protocol = SessionlessProtocol | "http" | "dflockd";

/** The name of a holder without a session; nobody else has it. */
export function newSessionlessOwner(protocol: SessionlessProtocol): string {
  return `${protocol}:${randomHex(16)}`;
}

/** The protocol of the holder with this name. */
export function protocolOf(owner: string): Protocol {
  if (owner.startsWith(HTTP_PREFIX)) return "http";
  return sessionlessProtocolOf(owner) ?? "dflockd";
}

/** The same; undefined if the name is that of a session. */
export function sessionlessProtocolOf(owner: string): SessionlessProtocol | undefined {
  return SESSIONLESS.find((protocol) => owner.startsWith(`${protocol}:`));
}

export function kindOfSession(session: string): SessionKind {
  return session.startsWith(HTTP_PREFIX) ? "httpSessions" : "connections";
}

/** The object of a session, as keys and the directory talk to it. One that goes to rest just then is woken again. */
export function sessionObject(env: Env, session: string): Listener {
  const objects = session.startsWith(HTTP_PREFIX) ? env.HTTP_SESSION : env.SESSION;
  const call = <Result>(ask: (listener: Listener) => Promise<Result>) =>
    callAwake(() => ask(objects.getByName(session) as unknown as Listener));
  return {
    deliver: (notice) => call((listener) => listener.deliver(notice)),
    lose: (loss) => call((listener) => listener.lose(loss)),
    isLive: () => call((listener) => listener.isLive()),
  };
}
