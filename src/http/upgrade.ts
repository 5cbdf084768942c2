import type { Context } from "hono";
import type { Config } from "../config.ts";
import { REFUSAL_HEADER } from "../objects/session.ts";
import { sameSecret } from "../secrets.ts";
import { openSession } from "../transports/session.ts";
import { WINDOW_HEADER } from "../transports/window.ts";
import type { AppEnv } from "./app.ts";
import { type ErrorCode, fail } from "./errors.ts";

const SUBPROTOCOL = "dflockd.v2";
const BRIDGE_HEADER = "X-Holdfast-Bridge";
const BRIDGE_ADDRESS_HEADER = "X-Holdfast-Client-Address";
const AUTH_FAILURE_PAUSE_MS = 100;
const UNKNOWN_ADDRESS = "unknown";

/** `GET /v1/ws`: from here on the socket speaks the wire protocol, and the Worker is out of the way. */
export async function upgrade(context: Context<AppEnv>): Promise<Response> {
  const { req } = context;
  const { config } = context.var;
  if (req.header("Upgrade")?.toLowerCase() !== "websocket") return fail(context, "upgrade_required");
  const origin = req.header("Origin");
  if (origin !== undefined && !isOriginAllowed(config, origin)) return fail(context, "origin_forbidden");
  const authorization = req.header("Authorization");
  const isAuthenticated = await isRightToken(config, authorization);
  const bridge = await isRightBridge(config, req.header(BRIDGE_HEADER));
  if ((authorization !== undefined && isAuthenticated === false) || bridge === false) {
    await scheduler.wait(AUTH_FAILURE_PAUSE_MS);
    return fail(context, "unauthorized");
  }
  const reply = await openSession(context.env, {
    transport: bridge ? "tcp" : "ws",
    address: (bridge ? req.header(BRIDGE_ADDRESS_HEADER) : undefined) ?? clientAddress(config, req.raw.headers),
    isAuthenticated: isAuthenticated === true,
    hasWindow: req.header(WINDOW_HEADER) !== undefined,
  });
  if (!reply.webSocket) return fail(context, (reply.headers.get(REFUSAL_HEADER) as ErrorCode | null) ?? "unavailable");
  const headers = offersSubprotocol(req.header("Sec-WebSocket-Protocol"))
    ? { "Sec-WebSocket-Protocol": SUBPROTOCOL }
    : undefined;
  return new Response(null, { status: 101, webSocket: reply.webSocket, ...(headers && { headers }) });
}

/** Browsers do not apply CORS to WebSockets, so a list of origins is enforced here. */
function isOriginAllowed({ corsOrigins }: Config, origin: string): boolean {
  return corsOrigins.length === 0 || corsOrigins.includes("*") || corsOrigins.includes(origin);
}

/** Undefined when there is nothing to check: no token configured, or none shown. */
async function isRightToken({ authToken }: Config, authorization: string | undefined): Promise<boolean | undefined> {
  if (authToken === undefined || authorization === undefined) return undefined;
  const token = /^bearer\s+(.*)$/is.exec(authorization.trim())?.[1]?.trim();
  return sameSecret(token ?? "", authToken);
}

/** Undefined when no bridge claims to be one, or none is configured: then its word about addresses is not heard. */
async function isRightBridge({ bridgeSecret }: Config, shown: string | undefined): Promise<boolean | undefined> {
  if (bridgeSecret === undefined || shown === undefined) return undefined;
  return sameSecret(shown, bridgeSecret);
}

/** The client's address, only ever from a header that clients cannot forge. */
function clientAddress({ clientIpHeader }: Config, headers: Headers): string {
  if (clientIpHeader === "") return UNKNOWN_ADDRESS;
  return headers.get(clientIpHeader) ?? UNKNOWN_ADDRESS;
}

function offersSubprotocol(offered: string | undefined): boolean {
  return offered?.split(",").some((name) => name.trim() === SUBPROTOCOL) ?? false;
}
