import type { CurrentHold, Which } from "../../core/engine/index.ts";
import { terraformLockQuery, terraformUnlockQuery } from "../openapi/schemas.ts";
import { fail, JSON_HEADERS } from "../reply/errors.ts";
import { readBody } from "../request/body.ts";
import type { AppContext } from "../request/context.ts";
import { type Parsed, parseQuery } from "../request/fields.ts";
import { keyIn, TO_CHANGE, TO_READ } from "../sessionless/access.ts";
import { claim } from "../sessionless/claim.ts";
import { etagOf, orUnavailable, type Refusal, refuse } from "../sessionless/replies.ts";
import { holderFrom, infoIn, infoOf, type LockInfo, MAX_INFO_BYTES, TERRAFORM } from "./info.ts";

export async function getTerraformLock(context: AppContext): Promise<Response> {
  const key = keyIn(context, TO_READ);
  if (typeof key !== "string") return key;
  return orUnavailable(context, async () => {
    const hold = await context.env.service.keys.ask(key, { type: "current" });
    return hold ? infoReply(context, key, hold, 200) : fail(context, "not_held");
  });
}

export async function lockTerraform(context: AppContext): Promise<Response> {
  const key = keyIn(context, TO_CHANGE);
  if (typeof key !== "string") return key;
  const query = parseQuery(terraformLockQuery, new URL(context.req.url).searchParams);
  if (!query.ok) return fail(context, "bad_request", query.detail);
  const info = await infoOfBody(context);
  if (!info.ok) return fail(context, "bad_request", info.detail);
  if (!info.value) return fail(context, "bad_request", "body is required: the lock info");
  const terms = { leaseSeconds: query.value.stale, waitSeconds: 0 };
  const end = await claim(context, key, { ...terms, sessionless: holderFrom(info.value) });
  switch (end.status) {
    case "granted":
    case "standing":
      return infoReply(context, key, end.hold, 200);
    case "timeout":
      return end.hold ? holderReply(context, key, end.hold, "held") : fail(context, "unavailable");
    case "limit_mismatch":
      return end.hold ? holderReply(context, key, end.hold, "held") : refuse(context, end.status);
    default:
      return refuse(context, end.status);
  }
}

/** A free lock counts as unlocked: the client repeats requests whose reply was lost. */
export async function unlockTerraform(context: AppContext): Promise<Response> {
  const key = keyIn(context, TO_CHANGE);
  if (typeof key !== "string") return key;
  const query = parseQuery(terraformUnlockQuery, new URL(context.req.url).searchParams);
  if (!query.ok) return fail(context, "bad_request", query.detail);
  const info = await infoOfBody(context);
  if (!info.ok) return fail(context, "bad_request", info.detail);
  const mark = info.value?.id ?? query.value.ID;
  const which: Which = mark === undefined ? { by: "any" } : { by: "mark", mark };
  return orUnavailable(context, async () => {
    const outcome = await context.env.service.keys.ask(key, {
      type: "remove",
      selector: { kind: TERRAFORM, which },
    });
    switch (outcome.status) {
      case "not_held":
        return context.body("{}", 200, JSON_HEADERS);
      case "removed":
        return outcome.hold ? infoReply(context, key, outcome.hold, 200) : context.body("{}", 200, JSON_HEADERS);
      case "mismatch":
        return holderReply(context, key, outcome.hold, "id_mismatch");
      case "foreign":
        return holderReply(context, key, outcome.hold, "foreign_holder");
    }
  });
}

async function infoOfBody(context: AppContext): Promise<Parsed<LockInfo | undefined>> {
  const { readTimeoutMs } = context.get("config");
  const body = await readBody(context.req.raw, { maxBytes: MAX_INFO_BYTES, deadlineMs: readTimeoutMs });
  return body.ok ? infoIn(body.bytes) : body;
}

/** 423 or, for an UNLOCK, 409, with the current holder's info. */
function holderReply(context: AppContext, key: string, hold: CurrentHold, why: Refusal): Response {
  context.set("error", why);
  return infoReply(context, key, hold, why === "held" ? 423 : 409);
}

/** The holder's lock info, byte for byte as received. */
function infoReply(context: AppContext, key: string, hold: CurrentHold, status: 200 | 409 | 423): Response {
  return context.body(infoOf(hold, key), status, { ...JSON_HEADERS, ETag: etagOf(hold) });
}
