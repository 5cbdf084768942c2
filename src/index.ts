import { app } from "./http/app.ts";
import type { Env } from "./objects/env.ts";
import { serveTcp } from "./transports/tcp.ts";

export { DirectoryObject } from "./objects/directory/directory-object.ts";
export { HttpSessionObject } from "./objects/http-session/http-session-object.ts";
export { KeyObject } from "./objects/key/key-object.ts";
export { MetricsObject } from "./objects/metrics/metrics-object.ts";
export { RateLimitObject } from "./objects/rate-limit.ts";
export { RelayObject } from "./objects/relay/relay-object.ts";
export { SessionObject } from "./objects/session/session-object.ts";
export { StorageProbeObject } from "./objects/storage-probe.ts";

export default {
  fetch: app.fetch,
  connect: serveTcp,
} satisfies ExportedHandler<Env> & { connect(socket: Socket, env: Env): Promise<void> };
