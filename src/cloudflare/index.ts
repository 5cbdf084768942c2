import type { Env } from "./env.ts";
import { connect, serve } from "./serve.ts";

export * from "./classes.ts";

export default {
  fetch: (request: Request, env: Env, ctx: ExecutionContext) => serve(request, env, ctx),
  connect,
} satisfies ExportedHandler<Env> & { connect(socket: Socket, env: Env): Promise<void> };
