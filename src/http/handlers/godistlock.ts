import { WINDOW_HEADER } from "../../core/protocols/carrier/window.ts";
import { rightsOf } from "../../core/session/rights.ts";
import { refuse } from "../middleware/checks.ts";
import { fail } from "../reply/errors.ts";
import type { AppContext } from "../request/context.ts";
import { handOver, isOriginAllowed, principalOf } from "./upgrade.ts";

const SUBPROTOCOL = "godistlock.v1";

/** `GET /v1/godistlock`: from here on the socket speaks godistlock, without the Worker in between. */
export async function openGodistlock(context: AppContext): Promise<Response> {
  const { req } = context;
  const caller = context.get("caller");
  if (req.header("Upgrade")?.toLowerCase() !== "websocket") return fail(context, "upgrade_required");
  if (!isOriginAllowed(context)) return fail(context, "origin_forbidden");
  const offered = (req.header("Sec-WebSocket-Protocol") ?? "").split(",").map((name) => name.trim());
  if (!offered.includes(SUBPROTOCOL)) return fail(context, "bad_request", `offer the subprotocol ${SUBPROTOCOL}`);
  const principal = await principalOf(context);
  if (principal === "rejected" || caller.via === "impostor") return refuse(context, "ws");
  const entry = {
    protocol: "godistlock",
    transport: caller.via === "bridge" ? "tcp" : "ws",
    address: caller.address,
    isAuthenticated: principal !== undefined && principal.type !== "open",
    rights: rightsOf(principal),
    hasWindow: req.header(WINDOW_HEADER) !== undefined,
  } as const;
  return handOver(context, { type: "client", entry, credential: undefined }, SUBPROTOCOL);
}
