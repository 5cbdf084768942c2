import { templateOf } from "./openapi/templates.ts";
import { rawPath } from "./request/path.ts";

const CONSOLE = "/";

/**
 * Where a service is mounted that got this request: the beginning of its path, before the first part that is a route. A folder
 * with no route in it is the console's.
 */
export function mountOf(request: Request): string {
  const path = rawPath(request);
  for (let start = 0; start >= 0; start = path.indexOf("/", start + 1)) {
    const rest = path.slice(start);
    if (rest !== CONSOLE && templateOf(rest) !== undefined) return path.slice(0, start);
  }
  return path.endsWith("/") ? path.slice(0, -1) : "";
}

/** A mount as it is typed, `/locks`, leads to the console, whose links are relative to `/locks/`. */
export function withSlash(request: Request): Response | undefined {
  const { method, url } = request;
  const isBare = /^\/[^/]+$/.test(rawPath(request)) && templateOf(rawPath(request)) === undefined;
  if (!isBare || (method !== "GET" && method !== "HEAD")) return undefined;
  const { pathname, search } = new URL(url);
  return new Response(null, { status: 308, headers: { Location: `${pathname}/${search}` } });
}
