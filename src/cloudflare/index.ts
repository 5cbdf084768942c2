import { app } from "../http/app.ts";
import type { Env } from "./env.ts";
import { CloudflareService } from "./service/cloudflare-service.ts";
import { boundWorkerOf } from "./transports/bound-worker.ts";
import { serveTcp } from "./transports/tcp.ts";

export { DirectoryObject } from "./directory/directory-object.ts";
export { HttpSessionObject } from "./http-session/http-session-object.ts";
export { KeyObject } from "./key/key-object.ts";
export { LockWaits } from "./locks/lock-waits.ts";
export { Locks } from "./locks/locks.ts";
export { MetricsObject } from "./metrics/metrics-object.ts";
export { RateLimitObject } from "./rate-limit.ts";
export { RelayObject } from "./relay/relay-object.ts";
export { SessionObject } from "./session/session-object.ts";

export default {
  fetch: (request: Request, env: Env, ctx: ExecutionContext) => {
    const service = new CloudflareService(env, (work) => ctx.waitUntil(work));
    return app.fetch(request, { service, address: boundWorkerOf(request) }, ctx);
  },
  connect: serveTcp,
} satisfies ExportedHandler<Env> & { connect(socket: Socket, env: Env): Promise<void> };
