import type { MiddlewareHandler } from "hono";
import type { Config } from "../../core/config/config.ts";

type Origins = Pick<Config, "corsOrigins">;

/** What a page of an allowed origin may do. Sent on every reply, because browsers read some of it only there. */
const GRANTED = {
  "Access-Control-Allow-Methods": "GET, POST, DELETE, OPTIONS",
  "Access-Control-Allow-Headers": "Authorization, Content-Type, X-Dflockd-Session",
  "Access-Control-Max-Age": "300",
  "Access-Control-Expose-Headers": "Retry-After",
} as const;

/** Lock files additionally need conditions, leases and PUT. */
const FILES = "/v1/files/";
const GRANTED_ON_FILES = {
  ...GRANTED,
  "Access-Control-Allow-Methods": `${GRANTED["Access-Control-Allow-Methods"]}, PUT`,
  "Access-Control-Allow-Headers": `${GRANTED["Access-Control-Allow-Headers"]}, If-Match, If-None-Match, X-Stale-Timeout`,
  "Access-Control-Expose-Headers": `${GRANTED["Access-Control-Expose-Headers"]}, ETag, X-Stale-Timeout, X-Expires-In`,
} as const;

/** A header that dflockd does not have: it is allowed if asked for; other requests get exactly dflockd's reply. */
const OURS = "X-Holdfast-Label";

/** The value of `Access-Control-Allow-Origin`, or undefined when the origin gets no CORS header. */
export function allowedOrigin({ corsOrigins }: Origins, origin: string | undefined): string | undefined {
  if (origin === undefined) return undefined;
  if (corsOrigins.includes("*")) return "*";
  return corsOrigins.includes(origin) ? origin : undefined;
}

/** The CORS headers added to any reply to a request from `origin` for `path`. */
export function corsHeaders(config: Origins, origin: string | undefined, path = "/"): Readonly<Record<string, string>> {
  const granted = path.startsWith(FILES) ? GRANTED_ON_FILES : GRANTED;
  const allowed = allowedOrigin(config, origin);
  const isList = config.corsOrigins.length > 0 && !config.corsOrigins.includes("*");
  return {
    ...(allowed !== undefined && { "Access-Control-Allow-Origin": allowed, ...granted }),
    // Also on replies to other origins: a cache must not serve those to a page that would be allowed.
    ...(isList && { Vary: "Origin" }),
  };
}

/** The headers a page may send, given those its browser asks for. */
function allowedHeaders(headers: Readonly<Record<string, string>>, asked = ""): Readonly<Record<string, string>> {
  const allowed = headers["Access-Control-Allow-Headers"];
  const asksForOurs = asked.split(",").some((name) => name.trim().toLowerCase() === OURS.toLowerCase());
  return allowed !== undefined && asksForOurs ? { "Access-Control-Allow-Headers": `${allowed}, ${OURS}` } : {};
}

/** Whether the request is a preflight. Without CORS there are none. */
export function isPreflight({ corsOrigins }: Origins, method: string, headers: Headers): boolean {
  return corsOrigins.length > 0 && method === "OPTIONS" && headers.has("Access-Control-Request-Method");
}

/**
 * Answers preflights on any path, and adds the CORS headers to every other reply, including errors. Runs before the
 * rate limit, the metrics and auth, so that none of them applies to a preflight.
 */
export const cors: MiddlewareHandler<{ Variables: { config: Config } }> = async (context, next) => {
  const config = context.get("config");
  const headers = corsHeaders(config, context.req.header("Origin"), context.req.path);
  if (isPreflight(config, context.req.method, context.req.raw.headers)) {
    const asked = context.req.header("Access-Control-Request-Headers");
    return context.body(null, 204, { ...headers, ...allowedHeaders(headers, asked) });
  }
  await next();
  for (const [name, value] of Object.entries(headers)) context.header(name, value, { append: name === "Vary" });
};
