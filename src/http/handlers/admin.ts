import { isAdmin } from "../../core/auth/principal.ts";
import { labelOfTag } from "../../core/key/tag-label.ts";
import { ownerIdOf } from "../../core/session-names.ts";
import { logged } from "../../log.ts";
import { identityOf } from "../../reports/key-detail.ts";
import { wrongCredential } from "../middleware/checks.ts";
import { removalQuery } from "../openapi/schemas.ts";
import { fail, json } from "../reply/errors.ts";
import { type AppContext, requestIdOf } from "../request/context.ts";
import { parseQuery } from "../request/fields.ts";
import { keyFault, segmentAt } from "../request/path.ts";

const KEY_SEGMENT = 3;
const ADMINS_ONLY =
  "this needs the admin token: send ADMIN_TOKEN as `Authorization: Bearer <token>`; without ADMIN_TOKEN a service has no administration";

/** Takes the slot away from the holder with this fence, and from no other. */
export async function removeHolder(context: AppContext): Promise<Response> {
  const key = segmentAt(context.req.path, KEY_SEGMENT);
  const fault = keyFault(key);
  if (key === undefined || fault !== undefined) return fail(context, "bad_request", fault);
  const principal = context.get("principal");
  if (!isAdmin(principal)) {
    // On an open service, a credential shown here was a wrong admin token.
    if (principal.type === "open" && context.req.header("Authorization")) await wrongCredential(context, "http");
    return fail(context, "forbidden", ADMINS_ONLY);
  }
  const query = parseQuery(removalQuery, new URL(context.req.url).searchParams);
  if (!query.ok) return fail(context, "bad_request", query.detail);
  const fence = query.value.token_fence;
  const { keys, log } = context.env.service;
  try {
    const removed = await keys.steal(key, fence);
    if (removed.status === "not_held") return fail(context, "not_held", `no holder of the key has the fence ${fence}`);
    const owner = ownerIdOf(removed.session);
    log("warn", "holder_removed", { request: requestIdOf(context), key, owner, fence });
    const label = removed.label ?? labelOfTag(removed.tag);
    const heldSeconds = Math.max(0, Date.now() - removed.since) / 1000;
    return json(context, { key, ...identityOf(removed.session, label), fence, held_s: heldSeconds });
  } catch (error) {
    logged("key_unreachable", log)(error);
    return fail(context, "unavailable");
  }
}
