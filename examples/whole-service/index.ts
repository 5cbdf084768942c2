/** A site with holdfast under `/locks`: its HTTP API, WebSockets and console. Everything else is the site's own. */
import holdfast from "holdfast/worker";

export * from "holdfast/worker";

export default {
  async fetch(request: Request, env: object, ctx: ExecutionContext): Promise<Response> {
    const { pathname } = new URL(request.url);
    if (pathname === "/locks" || pathname.startsWith("/locks/")) return holdfast.fetch(request, env, ctx);
    return new Response("the site");
  },
} satisfies ExportedHandler<object>;
