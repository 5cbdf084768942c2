import { kindOfSession } from "../../core/session-names.ts";
import type { PartialEnv } from "../env.ts";
import { objectsOf } from "../placement.ts";
import type { SessionObject } from "../session/session-object.ts";
import type { Listener } from "./notices.ts";

/**
 * The object of a new session on a socket. Nobody has to find it by a name, so it has none: the first use of a named
 * object waits for a check around the world. The session is called by the object's id, 64 hex digits.
 */
export function newSessionObject(env: PartialEnv): DurableObjectStub<SessionObject> {
  const sessions = objectsOf(env, "SESSION");
  return sessions.get(sessions.newUniqueId());
}

/** The object of the session on a socket that a client names; undefined if no object has this id. */
export function claimedSessionObject(env: PartialEnv, session: string): DurableObjectStub<SessionObject> | undefined {
  const sessions = objectsOf(env, "SESSION");
  try {
    return sessions.get(sessions.idFromString(session));
  } catch {
    // The platform recognises the ids that it has made for these objects.
    return undefined;
  }
}

/** The object of a session, as keys and the directory call it: by its id, or else by its name. */
export function sessionObject(env: PartialEnv, session: string): Listener {
  const sessions = objectsOf(env, kindOfSession(session) === "httpSessions" ? "HTTP_SESSION" : "SESSION");
  const isId = /^[0-9a-f]{64}$/.test(session);
  const object = isId ? sessions.get(sessions.idFromString(session)) : sessions.getByName(session);
  return object as unknown as Listener;
}
