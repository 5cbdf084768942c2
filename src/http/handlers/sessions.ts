import { mayHaveSession } from "../../core/auth/principal.ts";
import { httpSessionName } from "../../core/session-names.ts";
import { logged } from "../../log.ts";
import { REQUESTS } from "../openapi/schemas.ts";
import { fail, json } from "../reply/errors.ts";
import { MAX_BODY_BYTES, parseBody, readBody } from "../request/body.ts";
import type { AppContext } from "../request/context.ts";
import { labelOf } from "../request/label.ts";
import { isSessionId, segmentAt } from "../request/path.ts";

const ID_SEGMENT = 2;

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
  const { rest, log } = context.env.service;
  try {
    const opened = await rest.open(context.get("caller").address, label.value);
    if (opened.status !== "opened") return fail(context, opened.status);
    return json(context, { session_id: opened.id, idle_timeout_s: config.httpSessionIdleSeconds });
  } catch (error) {
    logged("session_create_failed", log)(error);
    return fail(context, "session_create_failed");
  }
}

export function pingSession(context: AppContext): Promise<Response> {
  return onSession(context, (id) => context.env.service.rest.ping(id));
}

export function deleteSession(context: AppContext): Promise<Response> {
  return onSession(context, (id) => context.env.service.rest.end(id));
}

async function onSession(context: AppContext, act: (id: string) => Promise<boolean>): Promise<Response> {
  const id = segmentAt(context.req.path, ID_SEGMENT);
  if (id === undefined || !isSessionId(id)) {
    return fail(context, "bad_request", "session id must be 32 lowercase hex digits");
  }
  if (!mayHaveSession(context.get("principal"))) return fail(context, "forbidden");
  context.set("session", httpSessionName(id));
  let isThere: boolean;
  try {
    isThere = await act(id);
  } catch (error) {
    logged("session_unreachable", context.env.service.log)(error);
    return fail(context, "unavailable");
  }
  return isThere ? context.body(null, 204) : fail(context, "session_gone");
}
