/**
 * A Worker whose requests change one balance at a time, wherever in the world they come in. The lock keeps them from
 * undoing each other's change; the fence, which the ledger checks, keeps out who has lost the lock and does not know.
 */
import { AcquireTimeoutError, connect } from "holdfast-client";
import type { Ledger } from "../fencing/durable-object.ts";

export { Ledger } from "../fencing/durable-object.ts";

export interface Env {
  readonly LEDGER: DurableObjectNamespace<Ledger>;
  readonly LOCKS_URL: string;
  /** A secret; absent where the service is open. */
  readonly LOCKS_TOKEN?: string;
}

export default {
  async fetch(request: Request, env: Env): Promise<Response> {
    const name = new URL(request.url).pathname.slice(1);
    const ledger = env.LEDGER.getByName(name);
    if (request.method !== "POST") return Response.json({ balance: (await ledger.read()) ?? 0 });
    const amount = Number(await request.text());
    // A client lives as long as the request: Workers do not share sockets between requests.
    await using locks = connect(env.LOCKS_URL, { ...(env.LOCKS_TOKEN && { token: env.LOCKS_TOKEN }) });
    try {
      return await locks.request(`ledger:${name}`, { timeout: 5_000 }, async ({ fence }) => {
        const balance = ((await ledger.read()) ?? 0) + amount;
        const isWritten = await ledger.write(fence, balance);
        return isWritten ? Response.json({ balance }) : new Response("the lock was lost", { status: 409 });
      });
    } catch (error) {
      if (error instanceof AcquireTimeoutError) return new Response("busy", { status: 503 });
      throw error;
    }
  },
} satisfies ExportedHandler<Env>;
