import { log, logged } from "../log.ts";
import { ownerIdOf } from "../objects/owner.ts";
import { labelsOf } from "../objects/stats.ts";
import { isAdmin } from "../principal.ts";
import type { AppContext } from "./context.ts";
import { fail, json } from "./errors.ts";
import { parseQuery } from "./fields.ts";
import { keyFault, segmentAt } from "./path.ts";
import { removalQuery } from "./schemas.ts";

const KEY_SEGMENT = 3;

/** Takes a slot away from the holder that bears this fence, and from no other. */
export async function removeHolder(context: AppContext): Promise<Response> {
  const key = segmentAt(context.req.path, KEY_SEGMENT);
  const fault = keyFault(key);
  if (key === undefined || fault !== undefined) return fail(context, "bad_request", fault);
  if (!isAdmin(context.var.principal)) return fail(context, "forbidden");
  const query = parseQuery(removalQuery, new URL(context.req.url).searchParams);
  if (!query.ok) return fail(context, "bad_request", query.detail);
  const fence = query.value.token_fence;
  try {
    const removed = await context.env.KEY.getByName(key).steal(fence);
    if (removed.status === "not_held") return fail(context, "not_held");
    const owner = ownerIdOf(removed.session);
    log("warn", "holder_removed", { request: context.var.requestId, key, owner, fence });
    const label = (await labelsOf(context.env, [removed.session]).catch(() => undefined))?.[removed.session];
    const heldSeconds = Math.max(0, Date.now() - removed.since) / 1000;
    return json(context, { key, owner_conn_id: owner, ...(label && { label }), fence, held_s: heldSeconds });
  } catch (error) {
    logged("key_unreachable")(error);
    return fail(context, "unavailable");
  }
}
