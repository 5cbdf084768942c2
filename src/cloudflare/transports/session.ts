import { REFUSAL_HEADER } from "../../core/protocols/carrier/refusal.ts";
import type { ClientEntry, Credential } from "../../service.ts";
import { claimedSessionObject, newSessionObject } from "../calls/session-names.ts";
import type { Env } from "../env.ts";
import { ENTRY_HEADER, encodeEntry, RESUME_HEADER } from "./client-entry.ts";

/** Opens a new session for one client. A reply without a `webSocket` is a refusal. */
export function openSession(env: Env, entry: ClientEntry): Promise<Response> {
  return connect(newSessionObject(env), entry, {});
}

/** Resumes the client's earlier session. */
export async function resumeSession(env: Env, entry: ClientEntry, { session, secret }: Credential): Promise<Response> {
  const object = claimedSessionObject(env, session);
  if (object) return connect(object, entry, { [RESUME_HEADER]: secret });
  return new Response(null, { status: 503, headers: { [REFUSAL_HEADER]: "session_gone" } });
}

function connect(object: Fetcher, entry: ClientEntry, more: Record<string, string>): Promise<Response> {
  const headers = { Upgrade: "websocket", [ENTRY_HEADER]: encodeEntry(entry), ...more };
  return object.fetch("http://session/", { headers });
}
