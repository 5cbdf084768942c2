import type { ErrorHandler, MiddlewareHandler } from "hono";
import { AUTH_FAILURE_PAUSE_MS, authenticate, authenticateAnyScheme } from "../../core/auth/principal.ts";
import { ownerIdOf } from "../../core/session-names.ts";
import { templateOf } from "../openapi/templates.ts";
import { fail, methodNotAllowed } from "../reply/errors.ts";
import { callerOf } from "../request/caller.ts";
import { type AppContext, type AppEnv, type Handler, requestIdOf } from "../request/context.ts";
import { takesBasicAuth } from "./basic-auth.ts";
import { credentialFault } from "./credential.ts";
import { recordRequest } from "./metrics.ts";
import { getHealth, getReady } from "./probes.ts";

const PROBES = new Map<string, Handler>([
  ["/health", getHealth],
  ["/ready", getReady],
]);
/** Routes that require no authentication; the WebSocket upgrade has its own rules. */
const WITHOUT_AUTH = new Set([
  ...PROBES.keys(),
  "/",
  "/console.js",
  "/console.css",
  "/v1/openapi.json",
  "/docs",
  "/v1/ws",
  "/v1/godistlock",
  "/v1/godistlock/relay",
]);

type Middleware = MiddlewareHandler<AppEnv>;

/** workerd (2026-11) builds a request's URL from the raw `Host` header: a value that is no host would shift the path. */
const HOST = /^[\w.~%:[\]-]+$/;
/** The last valid host, cached because most requests have the same. */
let goodHost: string | undefined;

function hasGoodHost({ req }: AppContext): boolean {
  const host = req.header("Host") ?? "unknown";
  if (host === goodHost) return true;
  if (!HOST.test(host) || !URL.canParse(req.url)) return false;
  goodHost = host;
  return true;
}

/** With an invalid variable, the service answers only its probes. */
export const configure: Middleware = async (context, next) => {
  const result = context.env.service.config;
  if (!hasGoodHost(context)) {
    return fail(context, "bad_request", "header Host must name a host");
  }
  if (result.ok) {
    context.set("config", result.config);
    return next();
  }
  const probe = PROBES.get(context.req.path);
  if (probe && (context.req.method === "GET" || context.req.method === "HEAD")) return probe(context);
  if (probe) {
    return methodNotAllowed(context, "GET, HEAD");
  }
  return fail(context, "misconfigured", `invalid configuration variable ${result.bad[0].name}`);
};

/** Counts every request once its reply is ready, and logs each that failed. */
export const observe: Middleware = async (context, next) => {
  const startedAt = Date.now();
  context.set("template", templateOf(context.req.path));
  await next();
  finish(context, context.get("isUpgraded") ? 101 : context.res.status, startedAt);
};

function finish(context: AppContext, status: number, startedAt: number): void {
  const { method } = context.req;
  const template = context.get("template") ?? "unmatched";
  const seconds = Math.max(0, Date.now() - startedAt) / 1000;
  const { log, meter } = context.env.service;
  recordRequest(meter, { method, path: template, status, seconds });
  // A readiness probe is no failure, whatever the answer; nor is a lock that is held.
  if (status < 400 || PROBES.has(template) || context.get("error") === "held") return;
  const { session, error: code = "unknown", detail } = context.var;
  const request = requestIdOf(context);
  const level = status >= 500 ? "error" : "warn";
  const fields = {
    request,
    method,
    path: template,
    status,
    error: code,
    detail,
    ...(session && { owner: ownerIdOf(session) }),
  };
  log(level, "request_failed", fields, code);
}

export const limitRate: Middleware = async (context, next) => {
  if (PROBES.has(context.req.path)) return next();
  const { service, address } = context.env;
  const caller = callerOf(context.get("config"), context.req.raw.headers, address);
  context.set("caller", caller);
  // A bridge opens WebSockets for TCP clients, which make no HTTP requests: other caps count them.
  if (caller.via === "bridge" || context.env.principal) return next();
  const seconds = await service.retryAfter(caller.address);
  if (seconds === undefined) return next();
  service.meter.count("rate_limited_total", {});
  context.header("Retry-After", String(seconds));
  return fail(context, "rate_limited");
};

export const authorize: Middleware = async (context, next) => {
  if (WITHOUT_AUTH.has(context.req.path)) return next();
  const scheme = takesBasicAuth(context.req.path) ? authenticateAnyScheme : authenticate;
  const principal = context.env.principal ?? (await scheme(context.get("config"), context.req.header("Authorization")));
  if (!principal) return refuse(context, "http");
  context.set("principal", principal);
  return next();
};

/** Refuses an unauthenticated request, after a pause that slows down guessing. */
export async function refuse(context: AppContext, transport: "http" | "ws", detail?: string): Promise<Response> {
  await wrongCredential(context, transport);
  return fail(context, "unauthorized", detail ?? credentialFault(context));
}

/** Counts a wrong credential and delays the answer. */
export async function wrongCredential(context: AppContext, transport: "http" | "ws"): Promise<void> {
  context.env.service.meter.count("auth_failures_total", { transport });
  await new Promise((resolve) => setTimeout(resolve, AUTH_FAILURE_PAUSE_MS));
}

export const failed: ErrorHandler<AppEnv> = (error, context) => {
  context.env.service.log("error", "http_failed", { request: requestIdOf(context), error: String(error) });
  return fail(context, "internal");
};
