import { WorkerEntrypoint } from "cloudflare:workers";
import type { ClaimEnd } from "../../service.ts";
import { RemoteKeys } from "../calls/remote-keys.ts";
import type { Env } from "../env.ts";
import { Claims } from "../service/claims.ts";
import type { Wait } from "./token-locks.ts";

/**
 * Waits for a lock on behalf of `Locks`, on a socket to the key. A call over RPC does not learn that its caller is gone, and
 * an open socket keeps it running; a request has a signal (workerd 2026-11). So the wait is a request of the Worker to
 * itself: when the caller leaves, the call that made the request ends, and the signal withdraws the claim.
 */
export class LockWaits extends WorkerEntrypoint<Env> {
  override async fetch(request: Request): Promise<Response> {
    const { key, command } = (await request.json()) as Wait;
    const claims = new Claims(new RemoteKeys(this.env), (work) => this.ctx.waitUntil(work));
    return Response.json(await claims.make(key, command, request.signal));
  }
}

/** Waits for a lock. If the caller of `Locks` leaves meanwhile, or the signal aborts, the claim is withdrawn. */
export async function waitForLock(
  { exports }: Pick<ExecutionContext, "exports">,
  wait: Wait,
  signal: AbortSignal | undefined,
): Promise<ClaimEnd> {
  const { LockWaits } = exports as unknown as { readonly LockWaits: Fetcher };
  const reply = await LockWaits.fetch("http://lock-waits/", {
    method: "POST",
    body: JSON.stringify(wait),
    signal: signal ?? null,
  });
  return reply.json<ClaimEnd>();
}
