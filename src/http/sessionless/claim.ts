import { logged } from "../../log.ts";
import type { Claim, ClaimEnd } from "../../service.ts";
import type { AppContext } from "../request/context.ts";

export interface Wanted extends Omit<Claim, "waitMs"> {
  readonly waitSeconds: number;
}

/** How a claim ended, in terms of the reply. */
type Decided =
  | Exclude<ClaimEnd, { readonly status: "left" }>
  | { readonly status: "draining" | "client_canceled" | "unavailable" };

/** Takes the lock for a holder without a session, waiting for it if asked to. */
export async function claim(context: AppContext, key: string, { waitSeconds, ...wanted }: Wanted): Promise<Decided> {
  if (context.get("config").draining) return { status: "draining" };
  const { service } = context.env;
  const { signal } = context.req.raw;
  try {
    let end = await service.keys.claim(key, { ...wanted, waitMs: waitSeconds * 1000 }, signal);
    // The wait and the lease in its way ended at the same time: the lock is free, so try once more.
    if (end.status === "timeout" && end.hold === undefined)
      end = await service.keys.claim(key, { ...wanted, waitMs: 0 }, signal);
    return end.status === "left" ? { status: "client_canceled" } : end;
  } catch (error) {
    logged("key_unreachable", service.log)(error);
    return { status: "unavailable" };
  }
}
