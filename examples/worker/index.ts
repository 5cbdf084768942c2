/**
 * A Worker whose requests change one balance at a time, wherever in the world they come in. The lock keeps them from
 * undoing each other's change; the fence, which the ledger checks, keeps out a request that has lost the lock and does not
 * know it.
 */
import type { LocksBinding } from "holdfast/worker";
import type { Ledger } from "../fencing/durable-object.ts";

export { Ledger } from "../fencing/durable-object.ts";

export interface Env {
  readonly LEDGER: DurableObjectNamespace<Ledger>;
  /** The service binding of wrangler.toml: no address and no token. */
  readonly LOCKS: LocksBinding;
}

export default {
  async fetch(request: Request, env: Env): Promise<Response> {
    const name = new URL(request.url).pathname.slice(1);
    const ledger = env.LEDGER.getByName(name);
    if (request.method !== "POST") return Response.json({ balance: (await ledger.read()) ?? 0 });
    const amount = Number(await request.text());
    try {
      return await env.LOCKS.request(`ledger:${name}`, { timeout: 5_000, label: "ledger" }, async (lock) => {
        const balance = ((await ledger.read()) ?? 0) + amount;
        const isWritten = await ledger.write(await lock.fence, balance);
        return isWritten ? Response.json({ balance }) : new Response("the lock was lost", { status: 409 });
      });
    } catch (error) {
      if (String(error).includes("LockTimeoutError")) return new Response("busy", { status: 503 });
      throw error;
    }
  },
} satisfies ExportedHandler<Env>;
