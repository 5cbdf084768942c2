import type { Context } from "hono";
import type { ContentfulStatusCode } from "hono/utils/http-status";

/** Every error that HTTP can answer, with its status and the headers that belong to it. */
const ERRORS = {
  unauthorized: { status: 401, headers: { "WWW-Authenticate": "Bearer" } },
  origin_forbidden: { status: 403, headers: {} },
  not_found: { status: 404, headers: {} },
  method_not_allowed: { status: 405, headers: {} },
  upgrade_required: { status: 426, headers: { Upgrade: "websocket" } },
  internal: { status: 500, headers: {} },
  misconfigured: { status: 500, headers: {} },
  max_connections: { status: 503, headers: {} },
  max_connections_per_ip: { status: 503, headers: {} },
  unavailable: { status: 503, headers: { "Retry-After": "1" } },
} as const satisfies Record<string, { status: ContentfulStatusCode; headers: Record<string, string> }>;

export type ErrorCode = keyof typeof ERRORS;

/** A JSON reply as all of ours are: compact, one line, never cached. */
export function json(context: Context, body: object, status: ContentfulStatusCode = 200): Response {
  return context.body(`${JSON.stringify(body)}\n`, status, {
    "Content-Type": "application/json",
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-store",
  });
}

export function fail(context: Context, error: ErrorCode, detail?: string): Response {
  const { status, headers } = ERRORS[error];
  for (const [name, value] of Object.entries(headers)) context.header(name, value);
  return json(context, detail === undefined ? { error } : { error, detail }, status);
}
