import { Hono } from "hono";
import type { Config } from "../config.ts";
import { log } from "../log.ts";
import { type Env, readConfigOf } from "../objects/env.ts";
import { fail, json } from "./errors.ts";
import { upgrade } from "./upgrade.ts";

export interface AppEnv {
  Bindings: Env;
  Variables: { config: Config };
}

const GET_ONLY = "GET, HEAD";

/** The HTTP side of the service: probes and the way in for WebSockets. */
export const app = new Hono<AppEnv>({ strict: true });

app.get("/health", (context) => json(context, { status: "ok" }));

app.get("/ready", (context) => {
  const result = readConfigOf(context.env);
  if (!result.ok) return json(context, { status: "misconfigured" }, 503);
  if (result.config.draining) return json(context, { status: "draining" }, 503);
  return json(context, { status: "ok" });
});

app.use(async (context, next) => {
  const result = readConfigOf(context.env);
  const isProbe = context.req.path === "/health" || context.req.path === "/ready";
  if (!result.ok) {
    if (isProbe) return next();
    return fail(context, "misconfigured", `invalid configuration variable ${result.bad[0].name}`);
  }
  context.set("config", result.config);
  return next();
});

app.get("/v1/ws", upgrade);

for (const path of ["/health", "/ready", "/v1/ws"]) {
  app.all(path, (context) => {
    context.header("Allow", GET_ONLY);
    return fail(context, "method_not_allowed");
  });
}

app.notFound((context) => fail(context, "not_found"));

app.onError((error, context) => {
  log("error", "http_failed", { error: String(error) });
  return fail(context, "internal");
});
