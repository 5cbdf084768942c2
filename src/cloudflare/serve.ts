import { app } from "../http/app.ts";
import type { Bindings } from "../service.ts";
import type { Env } from "./env.ts";
import { CloudflareService } from "./service/cloudflare-service.ts";
import { boundWorkerOf } from "./transports/bound-worker.ts";

export { serveTcp as connect } from "./transports/tcp.ts";

/** Serves one request of the HTTP API. */
export function serve(
  request: Request,
  env: Env,
  ctx: ExecutionContext,
  { address = boundWorkerOf(request), ...others }: Partial<Omit<Bindings, "service">> = {},
): Response | Promise<Response> {
  const service = new CloudflareService(env, (work) => ctx.waitUntil(work));
  return app.fetch(request, { service, address, ...others }, ctx);
}
