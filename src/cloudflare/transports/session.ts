import { newSessionId } from "../../core/session-names.ts";
import type { ClientEntry, Credential } from "../../service.ts";
import type { Env } from "../env.ts";
import { objectsOf } from "../placement.ts";
import { ENTRY_HEADER, encodeEntry, RESUME_HEADER } from "./client-entry.ts";

/** Opens a new session for one client. A reply without a `webSocket` is a refusal. */
export function openSession(env: Env, entry: ClientEntry): Promise<Response> {
  return connect(env, newSessionId(), entry, {});
}

/** Resumes the client's earlier session. */
export function resumeSession(env: Env, entry: ClientEntry, { session, secret }: Credential): Promise<Response> {
  return connect(env, session, entry, { [RESUME_HEADER]: secret });
}

function connect(env: Env, session: string, entry: ClientEntry, more: Record<string, string>): Promise<Response> {
  const headers = { Upgrade: "websocket", [ENTRY_HEADER]: encodeEntry(entry), ...more };
  return objectsOf(env, "SESSION").getByName(session).fetch("http://session/", { headers });
}
