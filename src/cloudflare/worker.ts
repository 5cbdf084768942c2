/** `holdfast/worker`: the whole service inside a Worker of one's own, also under a path of its own. */
import { mountOf, withSlash } from "../http/mount.ts";
import type { Env } from "./env.ts";
import { connect, serve } from "./serve.ts";

export * from "./classes.ts";

export default {
  fetch: (request: Request, env: Env, ctx: ExecutionContext): Response | Promise<Response> =>
    withSlash(request) ?? serve(request, env, ctx, { mount: mountOf(request) }),
  connect,
};
