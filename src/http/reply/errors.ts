import type { Context } from "hono";
import type { ContentfulStatusCode } from "hono/utils/http-status";

interface ErrorRule {
  readonly status: ContentfulStatusCode;
  /** What is wrong and what to do, where the handler has nothing more precise to say. Undefined: the reply has no detail. */
  readonly detail: string | undefined;
  readonly headers?: Readonly<Record<string, string>>;
  /** When it happens, for the reference. */
  readonly when: string;
}

/** Every error that HTTP can answer. No status, code or detail rule is defined anywhere else. */
export const ERRORS = {
  bad_request: {
    status: 400,
    detail: "malformed request",
    when: "The key, the session id in the path, a header, the body or a field breaks its rule, or the session header is missing; `detail` says which.",
  },
  unauthorized: {
    status: 401,
    detail: "this service needs a token: send the header `Authorization: Bearer <token>`",
    headers: { "WWW-Authenticate": "Bearer" },
    when: "The token or ticket is missing, not sent as `Bearer`, wrong or expired; `detail` says which.",
  },
  forbidden: {
    status: 403,
    detail: "the ticket does not cover this; ask with one that does, or with the token",
    when: "The ticket does not cover this key or operation, or the admin token is needed; `detail` says which.",
  },
  origin_forbidden: {
    status: 403,
    detail: undefined,
    when: "WebSocket upgrade from a page whose origin is not allowed.",
  },
  not_found: {
    status: 404,
    detail: "there is nothing at this path; /docs lists all routes",
    when: "No such route or, where a key is looked up, no such key.",
  },
  not_held: {
    status: 404,
    detail: "the key is not held, or not with this token: the lease may have ended, so acquire it again",
    when: "Nobody holds the key, or nobody with this token; its lease may have ended.",
  },
  method_not_allowed: {
    status: 405,
    detail: "the path does not take this method; the header `Allow` lists those it takes",
    when: "The path exists, but not with this method; see `Allow`.",
  },
  client_canceled: {
    status: 408,
    detail: "the client went away before the answer",
    when: "The client went away while its request waited; seen in logs and metrics only.",
  },
  limit_mismatch: {
    status: 409,
    detail: "the key is in use with another limit; ask with the same one, or when the key is free",
    when: "The key is in use with another limit, which `detail` names; a lock has limit 1.",
  },
  already_enqueued: {
    status: 409,
    detail: "this session is already enqueued for the key; collect the outcome with `wait`",
    when: "This session has enqueued for the key before and has not collected the outcome with `wait`.",
  },
  not_enqueued: {
    status: 409,
    detail: "this session is not enqueued for the key, or another wait of it is collecting the outcome; enqueue first",
    when: "This session has not enqueued for the key, or another `wait` is collecting the outcome.",
  },
  lease_expired: {
    status: 409,
    detail: "the lease ran out before the grant was picked up; ask again, and wait sooner or with a longer lease",
    when: "The slot was granted, but its lease ran out before it was picked up.",
  },
  foreign_holder: {
    status: 409,
    detail: "the holder came by another protocol, and is released there",
    when: "The key is held by another protocol, or as a semaphore: its holder cannot be released here.",
  },
  session_gone: {
    status: 410,
    detail: "the session is unknown, was deleted, or was idle for too long; open another with POST /v1/sessions",
    when: "The session is unknown, deleted, or was idle for too long.",
  },
  host_forbidden: {
    status: 421,
    detail:
      "the service does not answer to this name; if it is yours, add it to HTTP_ALLOWED_HOSTS (--http-allowed-hosts)",
    when: "The `Host` of the request is a name that the service does not answer to.",
  },
  upgrade_required: {
    status: 426,
    detail: "this route speaks WebSocket only: open it with a WebSocket client, or send `Upgrade: websocket`",
    headers: { Upgrade: "websocket" },
    when: "The route speaks WebSocket only.",
  },
  precondition_required: {
    status: 428,
    detail: "send `If-None-Match: *` to create the file, or `If-Match` with its ETag to refresh it",
    when: "A file is written without `If-None-Match: *` (create) or `If-Match` (refresh).",
  },
  rate_limited: {
    status: 429,
    detail: "too many requests from this address; try again after the seconds in `Retry-After`",
    when: "Too many requests from this address; `Retry-After` says when to come back.",
  },
  internal: {
    status: 500,
    detail: "the service failed unexpectedly; its log says why",
    when: "Unexpected failure of the service.",
  },
  misconfigured: {
    status: 500,
    detail: "a variable of the service is invalid; its log names it",
    when: "A variable of the service is invalid; `detail` names it.",
  },
  session_create_failed: {
    status: 500,
    detail: "the session could not be stored; try again, and see the log of the service",
    when: "The session could not be stored.",
  },
  max_locks: {
    status: 503,
    detail: "the service has as many keys as MAX_LOCKS allows; try again later, or raise it",
    when: "As many keys exist as the service allows.",
  },
  max_waiters: {
    status: 503,
    detail: "as many requests wait for this key as MAX_WAITERS allows; try again later, or raise it",
    when: "As many requests wait for this key as the service allows.",
  },
  max_sessions: {
    status: 503,
    detail: "as many sessions exist as HTTP_MAX_SESSIONS allows; end sessions that are not needed, or raise it",
    when: "As many sessions exist as the service allows.",
  },
  max_sessions_per_ip: {
    status: 503,
    detail:
      "this address has as many sessions as HTTP_MAX_SESSIONS_PER_IP allows; end those that are not needed, or raise it",
    when: "This address has as many sessions as it may have.",
  },
  max_connections: {
    status: 503,
    detail: "as many connections are open as MAX_CONNECTIONS allows; try again later, or raise it",
    when: "As many connections are open as the service allows.",
  },
  max_connections_per_ip: {
    status: 503,
    detail:
      "this address has as many connections as MAX_CONNECTIONS_PER_IP allows; close those that are not needed, or raise it",
    when: "This address has as many connections as it may have.",
  },
  draining: {
    status: 503,
    detail: "the service takes no new work (DRAINING); what is held can be renewed and released",
    when: "The service takes no new work; what is held can be released.",
  },
  fence_persistence: {
    status: 503,
    detail: "the fence of the grant could not be stored, and nothing was granted; see the log of the service",
    when: "The fence of the grant could not be stored; none was made.",
  },
  backup_refused: {
    status: 503,
    detail: "no copy was made; see the log of the service",
    when: "No copy was made: there is no room for it on the disk, or another one is being read; `detail` says which.",
  },
  unavailable: {
    status: 503,
    detail:
      "a part of the service did not answer; nothing was granted, or it is being withdrawn. Try again after `Retry-After`",
    headers: { "Retry-After": "1" },
    when: "A part of the service did not answer. Nothing was granted, or what was granted is being withdrawn.",
  },
} as const satisfies Record<string, ErrorRule>;

export type ErrorCode = keyof typeof ERRORS;

/** The rule of a code, without the literal types of the table. */
export function errorRule(code: ErrorCode): ErrorRule {
  return ERRORS[code];
}

/** Headers of every reply with a body, unless overridden. */
export const JSON_HEADERS = {
  "Content-Type": "application/json",
  "X-Content-Type-Options": "nosniff",
  "Cache-Control": "no-store",
} as const;

/** A JSON reply: compact, one line, never cached. */
export function json(context: Context, body: object, status: ContentfulStatusCode = 200): Response {
  return jsonText(context, JSON.stringify(body), status);
}

/** The same, for a body that is already JSON. */
export function jsonText(context: Context, body: string, status: ContentfulStatusCode = 200): Response {
  return context.body(`${body}\n`, status, JSON_HEADERS);
}

/** The body of an error reply. `detail` takes the place of the text in the table, if the code has one. */
export function errorBody(error: ErrorCode, detail?: string): { error: ErrorCode; detail?: string } {
  const rule = errorRule(error).detail;
  return rule === undefined ? { error } : { error, detail: detail ?? rule };
}

/** The most of what a client has sent that a reply repeats. */
const MAX_ECHOED_CHARS = 64;

/** What a client has sent, quoted for a detail: one line, not too long. */
export function echoed(text: string): string {
  return `${JSON.stringify(text.slice(0, MAX_ECHOED_CHARS))}${text.length > MAX_ECHOED_CHARS ? "…" : ""}`;
}

/**
 * An error reply with the headers that belong to its code; `Allow` and a computed `Retry-After` come from the caller.
 */
export function fail(context: Context, error: ErrorCode, detail?: string): Response {
  const body = errorBody(error, detail);
  context.set("error", error);
  context.set("detail", body.detail);
  const { status, headers = {} } = errorRule(error);
  for (const [name, value] of Object.entries(headers)) context.header(name, value);
  return json(context, body, status);
}

/** The path exists, but not with the method of the request. `allow` lists those it has. */
export function methodNotAllowed(context: Context, allow: string): Response {
  context.header("Allow", allow);
  return fail(context, "method_not_allowed", `method ${echoed(context.req.method)} is not allowed here; use ${allow}`);
}
