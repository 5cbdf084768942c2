import type { Context } from "hono";
import type { ContentfulStatusCode } from "hono/utils/http-status";

/** Whether a reply has a detail: `never`, `optional`, or always, with a default text. */
type Detail = "never" | "optional" | { readonly always: string };

interface ErrorRule {
  readonly status: ContentfulStatusCode;
  readonly detail: Detail;
  readonly headers?: Readonly<Record<string, string>>;
  /** When it happens, for the reference. */
  readonly when: string;
}

/** Every error that HTTP can answer. No status, code or detail rule is defined anywhere else. */
export const ERRORS = {
  bad_request: {
    status: 400,
    detail: { always: "malformed request" },
    when: "The key, the session id in the path, a header, the body or a field breaks its rule, or the session header is missing; `detail` says which.",
  },
  unauthorized: {
    status: 401,
    detail: "never",
    headers: { "WWW-Authenticate": "Bearer" },
    when: "The token or ticket is missing, wrong or expired.",
  },
  forbidden: {
    status: 403,
    detail: "never",
    when: "The ticket does not cover this key or operation, or the admin token is needed.",
  },
  origin_forbidden: {
    status: 403,
    detail: "never",
    when: "WebSocket upgrade from a page whose origin is not allowed.",
  },
  not_found: { status: 404, detail: "never", when: "No such route or, where a key is looked up, no such key." },
  not_held: {
    status: 404,
    detail: "never",
    when: "Nobody holds the key, or nobody with this token; its lease may have ended.",
  },
  method_not_allowed: { status: 405, detail: "never", when: "The path exists, but not with this method; see `Allow`." },
  client_canceled: {
    status: 408,
    detail: "optional",
    when: "The client went away while its request waited; seen in logs and metrics only.",
  },
  limit_mismatch: {
    status: 409,
    detail: { always: "the key is in use with another limit" },
    when: "The key is in use with another limit; a lock has limit 1.",
  },
  already_enqueued: {
    status: 409,
    detail: { always: "this session is already enqueued for the key" },
    when: "This session has enqueued for the key before and has not collected the outcome with `wait`.",
  },
  not_enqueued: {
    status: 409,
    detail: { always: "this session is not enqueued for the key, or another wait of it is collecting the outcome" },
    when: "This session has not enqueued for the key, or another `wait` is collecting the outcome.",
  },
  lease_expired: {
    status: 409,
    detail: { always: "the lease ran out before the grant was picked up" },
    when: "The slot was granted, but its lease ran out before it was picked up.",
  },
  foreign_holder: {
    status: 409,
    detail: { always: "the holder came by another protocol, and is released there" },
    when: "The key is held by another protocol, or as a semaphore: its holder cannot be released here.",
  },
  session_gone: { status: 410, detail: "never", when: "The session is unknown, deleted, or was idle for too long." },
  host_forbidden: {
    status: 421,
    detail: "never",
    when: "The `Host` of the request is a name that the service does not answer to.",
  },
  upgrade_required: {
    status: 426,
    detail: "never",
    headers: { Upgrade: "websocket" },
    when: "The route speaks WebSocket only.",
  },
  precondition_required: {
    status: 428,
    detail: "never",
    when: "A file is written without `If-None-Match: *` (create) or `If-Match` (refresh).",
  },
  rate_limited: {
    status: 429,
    detail: "never",
    when: "Too many requests from this address; `Retry-After` says when to come back.",
  },
  internal: { status: 500, detail: "optional", when: "Unexpected failure of the service." },
  misconfigured: {
    status: 500,
    detail: { always: "invalid configuration" },
    when: "A variable of the service is invalid; `detail` names it.",
  },
  session_create_failed: { status: 500, detail: "optional", when: "The session could not be stored." },
  max_locks: { status: 503, detail: "optional", when: "As many keys exist as the service allows." },
  max_waiters: { status: 503, detail: "optional", when: "As many requests wait for this key as the service allows." },
  max_sessions: { status: 503, detail: "never", when: "As many sessions exist as the service allows." },
  max_sessions_per_ip: { status: 503, detail: "never", when: "This address has as many sessions as it may have." },
  max_connections: {
    status: 503,
    detail: "never",
    when: "As many connections are open as the service allows.",
  },
  max_connections_per_ip: {
    status: 503,
    detail: "never",
    when: "This address has as many connections as it may have.",
  },
  draining: { status: 503, detail: "never", when: "The service takes no new work; what is held can be released." },
  fence_persistence: {
    status: 503,
    detail: "optional",
    when: "The fence of the grant could not be stored; none was made.",
  },
  unavailable: {
    status: 503,
    detail: "optional",
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

/** The body of an error reply. It has a detail exactly if the code's rule requires or allows one. */
export function errorBody(error: ErrorCode, detail?: string): { error: ErrorCode; detail?: string } {
  const rule = errorRule(error).detail;
  const text = typeof rule === "object" ? (detail ?? rule.always) : rule === "optional" ? detail : undefined;
  return text === undefined ? { error } : { error, detail: text };
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
