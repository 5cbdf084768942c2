import type { AppContext } from "../request/context.ts";
import { takesBasicAuth } from "./basic-auth.ts";

const WANTED = "send the header `Authorization: Bearer <token>`";
const REFUSED = "is refused: it must be the AUTH_TOKEN of the service, or a ticket that has not expired";

/** Why a request is unauthorized, and what to send. Repeats nothing of what was sent: it may be a secret. */
export function credentialFault({ req, get }: AppContext): string {
  if (get("caller").via === "impostor")
    return "the secret of the bridge is refused: BRIDGE_SECRET must be the same at the bridge and at the service";
  const authorization = req.header("Authorization")?.trim();
  if (authorization === undefined)
    return req.query("ticket") === undefined
      ? `no token was sent; ${WANTED}`
      : "the ticket in the query is wrong or has expired; ask for a new one with POST /v1/tickets";
  if (/^basic\s/i.test(authorization) && takesBasicAuth(req.path)) return `the password ${REFUSED}`;
  const [, token] = /^bearer(?:\s+(.*))?$/is.exec(authorization) ?? [];
  if (token !== undefined) return `the token ${REFUSED}`;
  return /^bearer$/i.test(authorization)
    ? `the header Authorization has no token after Bearer; ${WANTED}`
    : `the header Authorization does not begin with Bearer; ${WANTED}`;
}
