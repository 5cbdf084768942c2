import type { IncomingMessage } from "node:http";
import { TLSSocket } from "node:tls";
import { rawPath } from "../../../http/request/path.ts";
import { refusal } from "./refusals.ts";

const WEBSOCKET_VERSION = "13";
const WEBSOCKET_KEY = /^[+/0-9A-Za-z]{22}==$/;
/** The routes that speak WebSocket. */
const WEBSOCKET_PATHS: ReadonlySet<string> = new Set(["/v1/ws", "/v1/godistlock", "/v1/godistlock/relay"]);

/** Whether a request asks for a WebSocket on a path that has one. Elsewhere `Upgrade` has no effect. */
export function asksForWebSocket({ method, url = "", headers }: IncomingMessage): boolean {
  if (method !== "GET" || headers.upgrade?.toLowerCase() !== "websocket") return false;
  return WEBSOCKET_PATHS.has(rawPath({ url: url.startsWith("/") ? `http://holdfast${url}` : url }));
}

/** Whether a body follows the head. */
export function announcesBody({ headers }: IncomingMessage): boolean {
  return headers["transfer-encoding"] !== undefined || !/^0*$/.test(headers["content-length"] ?? "");
}

/** The refusal of a request whose head is not acceptable, whatever it asks for. */
export function headFault(request: IncomingMessage): string | undefined {
  if (!hasHost(request)) return badRequest("Host header must be given once");
  if (!asksForWebSocket(request)) return undefined;
  if (announcesBody(request)) return badRequest("an upgrade must not have a body");
  const { "sec-websocket-key": key, "sec-websocket-version": version } = request.headers;
  if (!key) return badRequest("Sec-WebSocket-Key header is missing");
  if (version !== WEBSOCKET_VERSION) {
    return refusal(426, "upgrade_required", {
      detail: `header Sec-WebSocket-Version must be ${WEBSOCKET_VERSION}`,
      headers: [`Sec-WebSocket-Version: ${WEBSOCKET_VERSION}`, "Upgrade: websocket"],
    });
  }
  return WEBSOCKET_KEY.test(key) ? undefined : badRequest("Sec-WebSocket-Key header must be 16 bytes in base64");
}

const badRequest = (detail: string) => refusal(400, "bad_request", { detail });
export const BAD_HOST = "header Host must name a host";
export const badHost = () => badRequest(BAD_HOST);

/** Load balancer probes often speak HTTP/1.0, which needs no host. */
function hasHost({ headers, rawHeaders, httpVersion }: IncomingMessage): boolean {
  let count = 0;
  for (let index = 0; index < rawHeaders.length; index += 2) if (isHost(rawHeaders[index])) count += 1;
  return count <= 1 && (Boolean(headers.host) || httpVersion === "1.0");
}

const isHost = (name: string | undefined) => name?.length === 4 && name.toLowerCase() === "host";

/**
 * Prepares a head for what makes requests of it, which would treat `\` as `/`, knows no host other than the client's,
 * and takes the scheme from the connection only.
 */
export function prepareHead(request: IncomingMessage): void {
  // Browsers always send a host, so no page can pass as a page of this machine.
  if (!request.headers.host) setHost(request, "localhost");
  const { url = "/", headers } = request;
  const query = url.indexOf("?");
  const pathEnd = query < 0 ? url.length : query;
  if (url.includes("\\")) request.url = url.slice(0, pathEnd).replaceAll("\\", "%5C") + url.slice(pathEnd);
  const isBehindTls = !(request.socket instanceof TLSSocket) && headers["x-forwarded-proto"] === "https";
  if (isBehindTls && url.startsWith("/") && PLAIN_HOST.test(headers.host ?? "")) {
    request.url = `https://${headers.host}${request.url}`;
  }
}

/** Any other is refused with its own message. */
const PLAIN_HOST = /^[\w.~%:[\]-]+$/;

function setHost(request: IncomingMessage, host: string): void {
  request.headers.host = host;
  const { rawHeaders } = request;
  const at = rawHeaders.findIndex((name, index) => index % 2 === 0 && isHost(name));
  if (at < 0) rawHeaders.push("Host", host);
  else rawHeaders[at + 1] = host;
}
