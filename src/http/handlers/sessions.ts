import { callAwake } from "../../cloudflare/awake/resting.ts";
import type { HttpSessionObject } from "../../cloudflare/http-session/http-session-object.ts";
import { objectsOf } from "../../cloudflare/placement.ts";
import { mayHaveSession } from "../../core/auth/principal.ts";
import { httpSessionName, newSessionId } from "../../core/session-names.ts";
import { logged } from "../../log.ts";
import { REQUESTS } from "../openapi/schemas.ts";
import { fail, json } from "../reply/errors.ts";
import { MAX_BODY_BYTES, parseBody, readBody } from "../request/body.ts";
import type { AppContext } from "../request/context.ts";
import { labelOf } from "../request/label.ts";
import { isSessionId, segmentAt } from "../request/path.ts";
import { takeReleases } from "./release-notes.ts";

const ID_SEGMENT = 2;

type SessionStub = DurableObjectStub<HttpSessionObject>;

/** Calls a session. If it goes to rest during the call, it is woken and called again: nothing was executed. */
export type AskSession = <Answer>(ask: (session: SessionStub) => Promise<Answer>) => Promise<Answer>;

/** Access to a session, which appears in the log under its number. */
export function sessionOf(context: AppContext, id: string): AskSession {
  const name = httpSessionName(id);
  context.set("session", name);
  // The stub of an object that has ended is permanently broken: every call needs a new one.
  return (ask) => callAwake(() => ask(objectsOf(context.env, "HTTP_SESSION").getByName(name)));
}

export async function createSession(context: AppContext): Promise<Response> {
  const config = context.get("config");
  const principal = context.get("principal");
  if (!mayHaveSession(principal)) return fail(context, "forbidden");
  const body = await readBody(context.req.raw, { maxBytes: MAX_BODY_BYTES, deadlineMs: config.readTimeoutMs });
  const parsed = body.ok ? parseBody(REQUESTS.createSession.schema, body.bytes, REQUESTS.createSession) : body;
  if (!parsed.ok) return fail(context, "bad_request", parsed.detail);
  const label = labelOf(context.req.header("X-Holdfast-Label"));
  if (!label.ok) return fail(context, "bad_request", label.detail);
  if (config.draining) return fail(context, "draining");
  const id = newSessionId();
  try {
    const { address } = context.get("caller");
    const admission = await sessionOf(context, id)((session) => session.open(address, label.value));
    if (admission !== "admitted") return fail(context, admission);
  } catch (error) {
    logged("session_create_failed")(error);
    return fail(context, "session_create_failed");
  }
  return json(context, { session_id: id, idle_timeout_s: config.httpSessionIdleSeconds });
}

export function pingSession(context: AppContext): Promise<Response> {
  return onSession(context, (session) => session.touch());
}

export function deleteSession(context: AppContext): Promise<Response> {
  return onSession(context, (session, name) => session.end(takeReleases(name)));
}

async function onSession(
  context: AppContext,
  act: (session: SessionStub, name: string) => Promise<boolean>,
): Promise<Response> {
  const id = segmentAt(context.req.path, ID_SEGMENT);
  if (id === undefined || !isSessionId(id)) {
    return fail(context, "bad_request", "session id must be 32 lowercase hex digits");
  }
  if (!mayHaveSession(context.get("principal"))) return fail(context, "forbidden");
  let isThere: boolean;
  try {
    isThere = await sessionOf(context, id)((session) => act(session, httpSessionName(id)));
  } catch (error) {
    logged("session_unreachable")(error);
    return fail(context, "unavailable");
  }
  return isThere ? context.body(null, 204) : fail(context, "session_gone");
}
