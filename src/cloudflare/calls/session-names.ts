import { kindOfSession } from "../../core/session-names.ts";
import type { PartialEnv } from "../env.ts";
import { objectsOf } from "../placement.ts";
import type { Listener } from "./notices.ts";

/** The object of a session, as keys and the directory call it. */
export function sessionObject(env: PartialEnv, session: string): Listener {
  const kind = kindOfSession(session) === "httpSessions" ? "HTTP_SESSION" : "SESSION";
  return objectsOf(env, kind).getByName(session) as unknown as Listener;
}
