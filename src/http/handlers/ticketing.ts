import { isTrusted } from "../../core/auth/principal.ts";
import { issueTicket, MAX_TICKET_LENGTH } from "../../core/auth/tickets.ts";
import { REQUESTS } from "../openapi/schemas.ts";
import { fail, json } from "../reply/errors.ts";
import { MAX_BODY_BYTES, parseBody, readBody } from "../request/body.ts";
import type { AppContext } from "../request/context.ts";

/** Issues a ticket: a page may then use the service without ever seeing the shared token. */
export async function createTicket(context: AppContext): Promise<Response> {
  const config = context.get("config");
  const principal = context.get("principal");
  if (!isTrusted(principal)) return fail(context, "forbidden", "a ticket does not issue tickets; send the token");
  const body = await readBody(context.req.raw, { maxBytes: MAX_BODY_BYTES, deadlineMs: config.readTimeoutMs });
  const { schema, mayBeEmpty } = REQUESTS.createTicket;
  const parsed = body.ok ? parseBody(schema, body.bytes, { mayBeEmpty }) : body;
  if (!parsed.ok) return fail(context, "bad_request", parsed.detail);
  const { keys, operations, ttl_s } = parsed.value;
  const ticket = await issueTicket(config, { keys, operations }, ttl_s, Date.now());
  if (ticket.length > MAX_TICKET_LENGTH) return fail(context, "bad_request", "keys make the ticket too long");
  return json(context, { ticket, expires_in_s: ttl_s });
}
