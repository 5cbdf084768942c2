import type { IncomingMessage } from "node:http";
import { refusal } from "./refusals.ts";
import { announcesBody, asksForWebSocket } from "./upgrade.ts";

const WEBSOCKET_VERSION = "13";

/** The refusal of a request whose head workerd would refuse in its own words, or parse differently than we do. */
export function headFault(request: IncomingMessage): string | undefined {
  if (!hasHost(request)) return badRequest("Host header must be given once");
  if (!asksForWebSocket(request)) return undefined;
  if (announcesBody(request)) return badRequest("an upgrade must not have a body");
  if (!request.headers["sec-websocket-key"]) return badRequest("Sec-WebSocket-Key header is missing");
  if (request.headers["sec-websocket-version"] === WEBSOCKET_VERSION) return undefined;
  return refusal(426, "upgrade_required", {
    headers: [`Sec-WebSocket-Version: ${WEBSOCKET_VERSION}`, "Upgrade: websocket"],
  });
}

const badRequest = (detail: string) => refusal(400, "bad_request", { detail });

/** Load balancer probes often speak HTTP/1.0, which needs no host. */
function hasHost({ headers, rawHeaders, httpVersion }: IncomingMessage): boolean {
  const count = rawHeaders.filter((text, index) => index % 2 === 0 && /^host$/i.test(text)).length;
  return count <= 1 && (Boolean(headers.host) || httpVersion === "1.0");
}
