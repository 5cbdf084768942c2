import { sameSecret } from "../../core/auth/secrets.ts";
import { WINDOW_HEADER } from "../../core/protocols/carrier/window.ts";
import { RELAY_SUBPROTOCOL } from "../../core/protocols/godistlock/relay.ts";
import { refuse } from "../middleware/checks.ts";
import { fail } from "../reply/errors.ts";
import type { AppContext } from "../request/context.ts";
import { handOver, isOriginAllowed } from "./upgrade.ts";

/** `GET /v1/godistlock/relay`: a connection of another deployment, straight to the relay of this one. */
export async function openRelay(context: AppContext): Promise<Response> {
  const { req } = context;
  const { relay } = context.get("config");
  if (!relay) return fail(context, "not_found", "this service is in no group: RELAY_PEERS and RELAY_TOKEN are not set");
  if (req.header("Upgrade")?.toLowerCase() !== "websocket") return fail(context, "upgrade_required");
  if (!isOriginAllowed(context)) return fail(context, "origin_forbidden");
  const offered = (req.header("Sec-WebSocket-Protocol") ?? "").split(",").map((name) => name.trim());
  if (!offered.includes(RELAY_SUBPROTOCOL))
    return fail(context, "bad_request", `offer the subprotocol ${RELAY_SUBPROTOCOL}`);
  const authorization = req.header("Authorization");
  const bearer = /^bearer\s+(.*)$/is.exec(authorization?.trim() ?? "")?.[1]?.trim() ?? "";
  if (authorization !== undefined && !sameSecret(bearer, relay.token))
    return refuse(context, "ws", "the token is refused: RELAY_TOKEN must be the same at all members of the group");
  const hasWindow = req.header(WINDOW_HEADER) !== undefined;
  return handOver(context, { type: "peer", isKnown: authorization !== undefined, hasWindow }, RELAY_SUBPROTOCOL);
}
