import type { ClientEntry, Credential } from "../../service.ts";
import { callAwake } from "../awake/resting.ts";
import { newSocketSession, objectNameOf } from "../calls/session-names.ts";
import type { Env } from "../env.ts";
import { objectsOf } from "../placement.ts";
import { ENTRY_HEADER, encodeEntry, RESUME_HEADER, SESSION_HEADER } from "./client-entry.ts";

/** Opens a new session for one client. A reply without a `webSocket` is a refusal. */
export function openSession(env: Env, entry: ClientEntry): Promise<Response> {
  return knock(env, newSocketSession(env, entry), entry, {});
}

/** Resumes the client's earlier session. */
export function resumeSession(env: Env, entry: ClientEntry, { session, secret }: Credential): Promise<Response> {
  return knock(env, session, entry, { [RESUME_HEADER]: secret });
}

function knock(env: Env, session: string, entry: ClientEntry, more: Record<string, string>): Promise<Response> {
  const headers = { Upgrade: "websocket", [SESSION_HEADER]: session, [ENTRY_HEADER]: encodeEntry(entry), ...more };
  const name = objectNameOf(session);
  return callAwake(() => objectsOf(env, "SESSION").getByName(name).fetch("http://session/", { headers }));
}
