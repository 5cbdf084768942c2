import { mayUse } from "../../core/auth/principal.ts";
import { type Outcome, STATUSES } from "../../core/protocols/statuses.ts";
import { type KeyRequest, mayHold } from "../../core/session/key-calls.ts";
import { httpSessionName } from "../../core/session-names.ts";
import { logged } from "../../log.ts";
import { REQUESTS, type RequestOf } from "../openapi/schemas.ts";
import { fail, json } from "../reply/errors.ts";
import { MAX_BODY_BYTES, parseBody, readBody } from "../request/body.ts";
import type { AppContext, Handler } from "../request/context.ts";
import type { Parsed } from "../request/fields.ts";
import { labelOf } from "../request/label.ts";
import { isSessionId, keyFault, segmentAt } from "../request/path.ts";
import { familyOf, KEY_REQUESTS, type KeyOperationId } from "./key-requests.ts";

const KEY_SEGMENT = 2;
const SESSION_HEADER = "X-Dflockd-Session";
const LABEL_HEADER = "X-Holdfast-Label";

/** A handler for one operation on a key, with the checks common to all of them, in order. */
export function keyOperation<Id extends KeyOperationId>(id: Id): Handler {
  const [family, requestOf] = [familyOf(id), KEY_REQUESTS[id]];
  return async (context) => {
    const key = segmentAt(context.req.path, KEY_SEGMENT);
    const fault = keyFault(key);
    if (key === undefined || fault !== undefined) return fail(context, "bad_request", fault);
    if (!mayUse(context.get("principal"), family, key)) return fail(context, "forbidden", outOfScope(family));
    const sessionId = context.req.header(SESSION_HEADER) ?? "";
    if (sessionId === "")
      return fail(context, "bad_request", `header ${SESSION_HEADER} is required; POST /v1/sessions returns its value`);
    if (!isSessionId(sessionId)) return fail(context, "session_gone", MALFORMED_SESSION);
    const label = labelOf(context.req.header(LABEL_HEADER));
    if (!label.ok) return fail(context, "bad_request", label.detail);
    context.set("session", httpSessionName(sessionId));
    const { rest, log } = context.env.service;
    try {
      const body = await bodyOf(context, sessionId, id);
      if (body === "session_gone") return fail(context, "session_gone");
      if (!body.ok) return fail(context, "bad_request", body.detail);
      const request = requestOf(key, body.value);
      // Reading the signal has a cost, and a request that leaves nothing behind needs none.
      const signal = mayHold(request) ? context.req.raw.signal : undefined;
      const outcome = await rest.perform(sessionId, { request, label: label.value }, signal);
      if (outcome.status === "gone") return fail(context, "session_gone");
      if (outcome.status === "left") return fail(context, "client_canceled");
      if (outcome.status === "limit_mismatch") return await limitMismatch(context, request);
      return replyOf(context, request, outcome);
    } catch (error) {
      logged("session_unreachable", log)(error);
      return fail(context, "unavailable");
    }
  };
}

const MALFORMED_SESSION = `header ${SESSION_HEADER} must be the 32 lowercase hex digits that POST /v1/sessions returns`;

function outOfScope(family: "lock" | "semaphore"): string {
  return `the ticket does not cover this key as a ${family}; ask for one with this key and the operation ${family}`;
}

/** Names the limit of the key, if the key can still tell. */
async function limitMismatch(context: AppContext, request: KeyRequest): Promise<Response> {
  const asked = "limit" in request ? request.limit : 1;
  const limit = await limitOf(context, request.key);
  if (limit === undefined || limit === asked) return fail(context, "limit_mismatch");
  const detail = `the key is in use with limit ${limit}, not ${asked}; ask with limit ${limit}, or when the key is free`;
  return fail(context, "limit_mismatch", detail);
}

async function limitOf(context: AppContext, key: string): Promise<number | undefined> {
  const { keys, log } = context.env.service;
  try {
    return (await keys.describe(key, { history: false }))?.limit;
  } catch (error) {
    logged("key_unreachable", log)(error);
    return undefined;
  }
}

/**
 * The body. If it is late or invalid, checks that the session exists: `session_gone` takes precedence over a bad body.
 */
async function bodyOf<Id extends KeyOperationId>(
  context: AppContext,
  sessionId: string,
  id: Id,
): Promise<Parsed<RequestOf<Id>> | "session_gone"> {
  const { readTimeoutMs: deadlineMs } = context.get("config");
  const { schema, mayBeEmpty } = REQUESTS[id];
  let isFound = false;
  const isWanted = async () => {
    isFound ||= await context.env.service.rest.ping(sessionId);
    return isFound;
  };
  const read = await readBody(context.req.raw, { maxBytes: MAX_BODY_BYTES, deadlineMs, isWanted });
  const parsed = read.ok ? (parseBody(schema, read.bytes, { mayBeEmpty }) as Parsed<RequestOf<Id>>) : read;
  return parsed.ok || (await isWanted()) ? parsed : "session_gone";
}

function granted({ token, leaseSeconds }: Outcome, status: "ok" | "acquired") {
  return { status, token, lease_ttl_s: leaseSeconds };
}

/** An outcome as an HTTP reply. */
function replyOf(context: AppContext, { type }: KeyRequest, outcome: Outcome): Response {
  const { status, leaseSeconds } = outcome;
  const error = STATUSES[status].http;
  if (error !== undefined) return fail(context, error);
  if (type === "release") return context.body(null, 204);
  if (type === "renew") return json(context, { remaining_s: leaseSeconds });
  if (status === "ok" || status === "acquired") return json(context, granted(outcome, status));
  return json(context, { status });
}
