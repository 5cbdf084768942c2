import type { Env } from "./env.ts";
import { connect, serve } from "./serve.ts";

// By name: the tests' runtime reads them here (vitest-plugin 1.1).
export {
  DirectoryObject,
  HttpSessionObject,
  KeyObject,
  Locks,
  LockWaits,
  MetricsObject,
  RateLimitObject,
  RelayObject,
  SessionObject,
} from "./classes.ts";

export default {
  fetch: (request: Request, env: Env, ctx: ExecutionContext) => serve(request, env, ctx),
  connect,
} satisfies ExportedHandler<Env> & { connect(socket: Socket, env: Env): Promise<void> };
