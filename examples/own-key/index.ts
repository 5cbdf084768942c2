/**
 * A Worker that makes an expensive page once, however many ask for it at the same time: the first makes it, the others wait and
 * take what is there. The locks are in the Worker itself: one class, one binding, one migration.
 */
import { locks } from "holdfast/durable-object";

export { LockKey } from "holdfast/durable-object";

interface Env {
  readonly LOCK_KEY: DurableObjectNamespace;
}

const pages = new Map<string, string>();

export default {
  async fetch(request: Request, env: Env): Promise<Response> {
    const { pathname } = new URL(request.url);
    const known = pages.get(pathname);
    if (known !== undefined) return new Response(known);
    await using lock = await locks(env.LOCK_KEY).acquire(`page:${pathname}`, { timeout: 5_000 });
    if (!lock) return new Response("busy", { status: 503 });
    // Another request may have made it while this one waited.
    const page = pages.get(pathname) ?? (await made(pathname, lock.fence));
    pages.set(pathname, page);
    return new Response(page);
  },
} satisfies ExportedHandler<Env>;

async function made(pathname: string, fence: string): Promise<string> {
  await scheduler.wait(100);
  return `${pathname} of ${fence}`;
}
