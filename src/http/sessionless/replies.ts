import type { CurrentHold } from "../../core/engine/index.ts";
import { fenceFromHex } from "../../core/engine/index.ts";
import { countAnswer } from "../../core/metrics/count.ts";
import { STATUSES, type Status } from "../../core/protocols/statuses.ts";
import { logged } from "../../log.ts";
import { type ErrorCode, fail } from "../reply/errors.ts";
import type { AppContext } from "../request/context.ts";

/** Why a request is answered with the current holder. Only logged: the body is the holder's text or info. */
export type Refusal = "held" | "fence_mismatch" | "id_mismatch" | "foreign_holder";

/** The ETag of a grant: its fence, in decimal. */
export function etagOf({ fence }: CurrentHold): string {
  return `"${fenceFromHex(fence)}"`;
}

/** When the lease was last set, in ms by the key's clock. For a renewed session hold: the latest possible time. */
export function leaseBegan({ expiresAt, leaseSeconds, at }: CurrentHold): number {
  return Math.min(at, expiresAt - leaseSeconds * 1000);
}

/** A refusal that exists in other protocols too, counted as it is there. */
export function refuse(context: AppContext, code: ErrorCode): Response {
  if (Object.hasOwn(STATUSES, code)) countAnswer(context.env.service.meter, code as Status);
  return fail(context, code);
}

/** Answers 503 if the key cannot be reached. */
export async function orUnavailable(context: AppContext, answer: () => Promise<Response>): Promise<Response> {
  try {
    return await answer();
  } catch (error) {
    logged("key_unreachable", context.env.service.log)(error);
    return fail(context, "unavailable");
  }
}
