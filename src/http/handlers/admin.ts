import { isAdmin } from "../../core/auth/principal.ts";
import { labelOfTag } from "../../core/key/tag-label.ts";
import { ownerIdOf } from "../../core/session-names.ts";
import { logged } from "../../log.ts";
import { identityOf } from "../../reports/key-detail.ts";
import { wrongCredential } from "../middleware/checks.ts";
import { BACKUP_TYPE } from "../openapi/routes/operators.ts";
import { removalQuery } from "../openapi/schemas.ts";
import { fail, json } from "../reply/errors.ts";
import { type AppContext, requestIdOf } from "../request/context.ts";
import { parseQuery } from "../request/fields.ts";
import { keyFault, segmentAt } from "../request/path.ts";

const KEY_SEGMENT = 3;
const BACKUP_HEADERS = {
  "Content-Type": BACKUP_TYPE,
  "Content-Disposition": 'attachment; filename="holdfast.db"',
  "X-Content-Type-Options": "nosniff",
  "Cache-Control": "no-store",
};
const ON_CLOUDFLARE = "there is no file to copy: on Cloudflare each key is an object with storage of its own";
const IN_MEMORY = "there is no file to copy: this server keeps nothing on disk (--data-dir :memory:)";
const UNDER_WAY = "another copy is being read: try again when that has ended";
const NO_ROOM = "the disk of the data directory has no room for a copy";
const ADMINS_ONLY =
  "this needs the admin token: send ADMIN_TOKEN as `Authorization: Bearer <token>`; without ADMIN_TOKEN a service has no administration";

/** The reply to a caller who is no administrator. */
async function refuseOthers(context: AppContext): Promise<Response | undefined> {
  const principal = context.get("principal");
  if (isAdmin(principal)) return undefined;
  // On an open service, a credential shown here was a wrong admin token.
  if (principal.type === "open" && context.req.header("Authorization")) await wrongCredential(context, "http");
  return fail(context, "forbidden", ADMINS_ONLY);
}

/** Takes the slot away from the holder with this fence, and from no other. */
export async function removeHolder(context: AppContext): Promise<Response> {
  const key = segmentAt(context.req.path, KEY_SEGMENT);
  const fault = keyFault(key);
  if (key === undefined || fault !== undefined) return fail(context, "bad_request", fault);
  const refused = await refuseOthers(context);
  if (refused) return refused;
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

/** Everything that is stored, as one file. */
export async function getBackup(context: AppContext): Promise<Response> {
  const refused = await refuseOthers(context);
  if (refused) return refused;
  const { backup, log } = context.env.service;
  if (!backup) return fail(context, "not_found", ON_CLOUDFLARE);
  // A head has no body: there is nothing to copy for it.
  if (context.req.method === "HEAD") return context.body(null, 200, BACKUP_HEADERS);
  try {
    const copy = await backup.take();
    switch (copy.status) {
      case "taken": {
        const { bytes, content } = copy;
        log("warn", "backup_taken", { request: requestIdOf(context), bytes });
        return context.body(content, 200, { ...BACKUP_HEADERS, "Content-Length": String(bytes) });
      }
      case "in_memory":
        return fail(context, "not_found", IN_MEMORY);
      case "under_way":
        return fail(context, "backup_refused", UNDER_WAY);
      case "no_room":
        return fail(context, "backup_refused", NO_ROOM);
    }
  } catch (error) {
    logged("backup_failed", log)(error);
    return fail(context, "unavailable");
  }
}
