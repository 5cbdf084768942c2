import type { CurrentHold } from "../../core/engine/index.ts";
import { fileQuery, STALE_HEADER, staleHeader } from "../openapi/schemas.ts";
import { fail } from "../reply/errors.ts";
import { readBody } from "../request/body.ts";
import type { AppContext } from "../request/context.ts";
import { parseFields, parseQuery } from "../request/fields.ts";
import { keyIn, TO_CHANGE, TO_READ } from "../sessionless/access.ts";
import { claim } from "../sessionless/claim.ts";
import { orUnavailable, type Refusal, refuse } from "../sessionless/replies.ts";
import { conditionOf, matchOf } from "./conditions.ts";
import { FILE, holderFrom, MAX_BODY_BYTES, type Sender, senderIn, textReply } from "./text.ts";

/** Answers with the current holder as the text of a lock file. */
export async function getFile(context: AppContext): Promise<Response> {
  const key = keyIn(context, TO_READ);
  if (typeof key !== "string") return key;
  return orUnavailable(context, async () => {
    const hold = await context.env.service.keys.ask(key, { type: "current" });
    return hold ? textReply(context, hold, 200) : fail(context, "not_held");
  });
}

/** Creates or refreshes the file, depending on the condition. */
export async function putFile(context: AppContext): Promise<Response> {
  const key = keyIn(context, TO_CHANGE);
  if (typeof key !== "string") return key;
  const { headers } = context.req.raw;
  const condition = conditionOf(headers);
  if (!condition.ok) return fail(context, "bad_request", condition.detail);
  if (condition.value.type === "none") return fail(context, "precondition_required");
  const lease = parseFields(staleHeader, { [STALE_HEADER]: headers.get(STALE_HEADER) ?? undefined });
  if (!lease.ok) return fail(context, "bad_request", lease.detail);
  const query = condition.value.type === "absent" ? queryOf(context) : { ok: true as const, value: { wait: 0 } };
  if (!query.ok) return fail(context, "bad_request", query.detail);
  const { readTimeoutMs } = context.get("config");
  const body = await readBody(context.req.raw, { maxBytes: MAX_BODY_BYTES, deadlineMs: readTimeoutMs });
  const sender = body.ok ? senderIn(body.bytes) : body;
  if (!sender.ok) return fail(context, "bad_request", sender.detail);
  const leaseSeconds = lease.value[STALE_HEADER];
  if (condition.value.type === "absent")
    return createFile(context, key, sender.value, { leaseSeconds, waitSeconds: query.value.wait });
  const { which } = condition.value;
  const newLease = headers.has(STALE_HEADER) ? leaseSeconds : undefined;
  const command = { kind: FILE, which, leaseSeconds: newLease, tag: sender.value.tag };
  return orUnavailable(context, async () => {
    const outcome = await context.env.service.keys.ask(key, { type: "refresh", command });
    switch (outcome.status) {
      case "refreshed":
        return textReply(context, outcome.hold, 200);
      case "mismatch":
        return holderReply(context, outcome.hold, "fence_mismatch");
      case "foreign":
        return holderReply(context, outcome.hold, "foreign_holder");
      default:
        return refuse(context, outcome.status);
    }
  });
}

/** Removes the file and grants the key to the next waiter. */
export async function deleteFile(context: AppContext): Promise<Response> {
  const key = keyIn(context, TO_CHANGE);
  if (typeof key !== "string") return key;
  const match = matchOf(context.req.raw.headers);
  if (!match.ok) return fail(context, "bad_request", match.detail);
  const selector = { kind: FILE, which: match.value ?? { by: "any" as const } };
  return orUnavailable(context, async () => {
    const outcome = await context.env.service.keys.ask(key, { type: "remove", selector });
    switch (outcome.status) {
      case "removed":
        return context.body(null, 204);
      case "mismatch":
        return holderReply(context, outcome.hold, "fence_mismatch");
      case "foreign":
        return fail(context, "foreign_holder");
      case "not_held":
        return fail(context, "not_held");
    }
  });
}

/** 412, with the current holder's text. */
function holderReply(context: AppContext, hold: CurrentHold, why: Refusal): Response {
  context.set("error", why);
  return textReply(context, hold, 412);
}

function queryOf(context: AppContext) {
  return parseQuery(fileQuery, new URL(context.req.url).searchParams);
}

async function createFile(
  context: AppContext,
  key: string,
  sender: Sender,
  terms: { readonly leaseSeconds: number; readonly waitSeconds: number },
): Promise<Response> {
  const end = await claim(context, key, { ...terms, sessionless: holderFrom(sender) });
  switch (end.status) {
    case "granted": {
      const { mount = "" } = context.env;
      return textReply(context, end.hold, 201, { Location: `${mount}/v1/files/${encodeURIComponent(key)}` });
    }
    case "standing":
      return textReply(context, end.hold, 200);
    case "timeout":
      return end.hold ? holderReply(context, end.hold, "held") : fail(context, "unavailable");
    default:
      return refuse(context, end.status);
  }
}
