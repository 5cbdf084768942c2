import type { Config } from "../config.ts";
import { logged } from "../log.ts";
import { REFUSAL_HEADER } from "../objects/session.ts";
import { authenticate, authenticateTicket, type Principal } from "../principal.ts";
import { openSession } from "../transports/session.ts";
import { WINDOW_HEADER } from "../transports/window.ts";
import type { AppContext } from "./context.ts";
import { allowedOrigin } from "./cors.ts";
import { type ErrorCode, fail } from "./errors.ts";
import { labelOf } from "./label.ts";
import { refuse } from "./middleware.ts";

const SUBPROTOCOL = "dflockd.v2";

/** `GET /v1/ws`: from here on the socket speaks the wire protocol, and the Worker is out of the way. */
export async function upgrade(context: AppContext): Promise<Response> {
  const { req } = context;
  const { config, caller } = context.var;
  if (req.header("Upgrade")?.toLowerCase() !== "websocket") return fail(context, "upgrade_required");
  if (!isOriginAllowed(config, req.header("Origin"))) return fail(context, "origin_forbidden");
  const principal = await principalOf(context);
  if (principal === "nobody" || caller.via === "impostor") return refuse(context, "ws");
  const label = labelOf(req.query("label"));
  if (!label.ok) return fail(context, "bad_request", label.detail);
  const entry = {
    transport: caller.via === "bridge" ? "tcp" : "ws",
    address: caller.address,
    isAuthenticated: principal !== undefined && principal.type !== "open",
    scope: principal?.type === "ticket" ? principal.scope : undefined,
    hasWindow: req.header(WINDOW_HEADER) !== undefined,
    label: label.value,
  } as const;
  const reply = await openSession(context.env, entry).catch(logged("session_unreachable"));
  if (!reply?.webSocket)
    return fail(context, (reply?.headers.get(REFUSAL_HEADER) as ErrorCode | null) ?? "unavailable");
  const headers = offersSubprotocol(req.header("Sec-WebSocket-Protocol"))
    ? { "Sec-WebSocket-Protocol": SUBPROTOCOL }
    : undefined;
  return new Response(null, { status: 101, webSocket: reply.webSocket, ...(headers && { headers }) });
}

/** Browsers do not apply CORS to WebSockets, so a list of origins is enforced here. */
function isOriginAllowed(config: Config, origin: string | undefined): boolean {
  return origin === undefined || config.corsOrigins.length === 0 || allowedOrigin(config, origin) !== undefined;
}

/** Who asks; undefined when the upgrade does not say, so that the first command must. */
async function principalOf({ req, var: { config } }: AppContext): Promise<Principal | "nobody" | undefined> {
  const authorization = req.header("Authorization");
  if (authorization !== undefined) return (await authenticate(config, authorization)) ?? "nobody";
  // Browsers cannot set the header. The token itself is never taken from an address: those end up in logs.
  const ticket = req.query("ticket");
  return ticket === undefined ? undefined : ((await authenticateTicket(config, ticket)) ?? "nobody");
}

function offersSubprotocol(offered: string | undefined): boolean {
  return offered?.split(",").some((name) => name.trim() === SUBPROTOCOL) ?? false;
}
