import { authenticate, authenticateTicket, type Principal } from "../../core/auth/principal.ts";
import { WINDOW_HEADER } from "../../core/protocols/carrier/window.ts";
import { rightsOf } from "../../core/session/rights.ts";
import type { Arrival, ClientEntry, Credential } from "../../service.ts";
import { refuse, wrongCredential } from "../middleware/checks.ts";
import { allowedOrigin } from "../middleware/cors.ts";
import { hostIn, isLoopback, isLoopbackOrigin } from "../middleware/hosts.ts";
import { fail } from "../reply/errors.ts";
import type { AppContext } from "../request/context.ts";
import { labelOf } from "../request/label.ts";

const SUBPROTOCOL = "dflockd.v2";

/** `GET /v1/ws`: from here on the socket speaks the wire protocol, without the Worker in between. */
export async function upgrade(context: AppContext): Promise<Response> {
  const { req } = context;
  const caller = context.get("caller");
  const config = context.get("config");
  if (req.header("Upgrade")?.toLowerCase() !== "websocket") return fail(context, "upgrade_required");
  if (!isOriginAllowed(context)) return fail(context, "origin_forbidden");
  const principal = await principalOf(context);
  if (principal === "rejected" || caller.via === "impostor") return refuse(context, "ws");
  // On an open service only the admin token can be shown. The client keeps the rights that all clients have.
  const isGuess = principal?.type === "open" && config.adminToken !== undefined && req.header("Authorization");
  if (isGuess) await wrongCredential(context, "ws");
  const label = labelOf(req.query("label"));
  if (!label.ok) return fail(context, "bad_request", label.detail);
  const entry: ClientEntry = {
    protocol: "dflockd",
    transport: caller.via === "bridge" ? "tcp" : "ws",
    address: caller.address,
    isAuthenticated: principal !== undefined && principal.type !== "open",
    rights: rightsOf(principal),
    hasWindow: req.header(WINDOW_HEADER) !== undefined,
    label: label.value,
  };
  const offered = (req.header("Sec-WebSocket-Protocol") ?? "").split(",").map((name) => name.trim());
  const arrival = { type: "client", entry, credential: credentialIn(offered) } as const;
  return handOver(context, arrival, offered.includes(SUBPROTOCOL) ? SUBPROTOCOL : undefined);
}

/** Hands the connection over to the host. `subprotocol` is the one of those offered that will be spoken. */
export async function handOver(
  context: AppContext,
  arrival: Arrival,
  subprotocol: string | undefined,
): Promise<Response> {
  const headers = new Headers(subprotocol === undefined ? undefined : { "Sec-WebSocket-Protocol": subprotocol });
  const end = await context.env.service.sockets.upgrade(context.req.raw, arrival, headers);
  if (end.status !== "upgraded") return fail(context, end.status);
  context.set("isUpgraded", true);
  return end.response;
}

/** The credential to resume a session is sent as a subprotocol, because URLs end up in logs. */
function credentialIn(offered: readonly string[]): Credential | undefined {
  for (const name of offered) {
    const [, session, secret] = /^holdfast\.resume\.((?:[0-9a-f]{32}){1,2})\.([0-9a-f]{32})$/.exec(name) ?? [];
    if (session && secret) return { session, secret };
  }
  return undefined;
}

/**
 * Browsers do not apply CORS to WebSockets, so the origin of a page is checked here. Our own pages have our own origin,
 * which no other page can share: the `Host` has been checked before. A list of origins decides about all others.
 * Without a list, a service without a token serves only pages of this machine: an open service is not open to every
 * page its users visit.
 */
export function isOriginAllowed({ req, var: { config } }: AppContext): boolean {
  const origin = req.header("Origin");
  if (origin === undefined || origin === new URL(req.url).origin) return true;
  if (config.corsOrigins.length > 0) return allowedOrigin(config, origin) !== undefined;
  if (config.authToken !== undefined) return true;
  return isLoopbackOrigin(origin) && isLoopback(hostIn(req.header("Host") ?? ""));
}

/** The authenticated principal; undefined if the upgrade carries no credential, so that the first command must. */
export async function principalOf({
  req,
  env,
  var: { config },
}: AppContext): Promise<Principal | "rejected" | undefined> {
  if (env.principal) return env.principal;
  const authorization = req.header("Authorization");
  if (authorization !== undefined) return (await authenticate(config, authorization)) ?? "rejected";
  // Browsers cannot set the header. The token itself is never taken from a URL: URLs end up in logs.
  const ticket = req.query("ticket");
  return ticket === undefined ? undefined : ((await authenticateTicket(config, ticket)) ?? "rejected");
}
