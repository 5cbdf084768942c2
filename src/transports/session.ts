import type { Env } from "../objects/env.ts";
import { newSessionId } from "../objects/owner.ts";
import { ENTRY_HEADER, type Entry, encodeEntry } from "../objects/session.ts";

/** Starts a session of its own for one client. Without a `webSocket` in the reply it was refused. */
export function openSession(env: Env, entry: Entry): Promise<Response> {
  const headers = { Upgrade: "websocket", [ENTRY_HEADER]: encodeEntry(entry) };
  return env.SESSION.getByName(newSessionId()).fetch("http://session/", { headers });
}
