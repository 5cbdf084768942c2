import { timingSafeEqual } from "node:crypto";
import type { IncomingMessage } from "node:http";
import { TLSSocket } from "node:tls";
import { REFUSAL_HEADER } from "../../core/protocols/carrier/refusal.ts";
import { plainIp } from "../../node/listeners/addresses.ts";
import { SCHEME_HEADER } from "../workerd/config.ts";
import type { ResponseHead } from "./response-parser.ts";

/** Tells workerd a client's address. The header is dropped from clients' requests. */
export const PEER_HEADER = "X-Holdfast-Peer";
const BRIDGE_HEADER = "x-holdfast-bridge";
const BRIDGE_ADDRESS_HEADER = "x-holdfast-client-address";

/** Headers that concern one connection, not the request. */
const OF_CONNECTION = new Set([
  "connection",
  "keep-alive",
  "proxy-connection",
  "proxy-authenticate",
  "proxy-authorization",
  // Without extensions nothing is compressed: frames tell a message's length, and no compression buffers are kept.
  "sec-websocket-extensions",
  "te",
  "trailer",
  "upgrade",
]);

/** Headers that belong to the request, even if `Connection` lists them. */
const OF_REQUEST = ["content-length", "transfer-encoding", "host"];

/** Headers between the front door and workerd. */
const OURS = new Set([PEER_HEADER, SCHEME_HEADER, REFUSAL_HEADER].map((name) => name.toLowerCase()));
const FRAMING = new Set([...OURS, "transfer-encoding"]);
const OURS_AND_BRIDGES = new Set([...OURS, BRIDGE_HEADER, BRIDGE_ADDRESS_HEADER]);

const CONDITIONS = new Set(["if-match", "if-none-match"]);

export interface Forwarding {
  readonly isUpgrade: boolean;
  /** Whether external bridges are trusted: only if the operator has set a secret for them. */
  readonly hearsBridges: boolean;
}

/** The headers of a request as sent to workerd, names and values alternating. */
export function forwardedHeaders(request: IncomingMessage, { isUpgrade, hearsBridges }: Forwarding): string[] {
  const ours = hearsBridges ? OURS : OURS_AND_BRIDGES;
  const headers = keptHeaders(request, request.headers.host ? ours : new Set([...ours, "host"]));
  // HTTP/1.0 needs no host, workerd does. Browsers always send one, so no page can pass as a page of this machine.
  if (!request.headers.host) headers.push("Host", "localhost");
  // workerd drops an empty condition (2026-11), and the request would become unconditional.
  for (let index = 0; index < headers.length; index += 2) {
    if (headers[index + 1] === "" && CONDITIONS.has((headers[index] ?? "").toLowerCase())) headers[index + 1] = '""';
  }
  headers.push(PEER_HEADER, peerAddress(request), SCHEME_HEADER, schemeOf(request));
  // With `close`, workerd would not wait for the rest of a body that it refuses, and we might write to a closed socket.
  headers.push("Connection", isUpgrade ? "Upgrade" : "keep-alive");
  if (isUpgrade) headers.push("Upgrade", "websocket");
  return headers;
}

export interface Relaying {
  /** The connection must close after this answer. */
  readonly isLast: boolean;
}

const UPGRADE_REQUIRED = 426;

/** The headers of an answer as sent to its client. The framing of the body is chosen here, not copied from workerd. */
export function answerHeaders(answer: ResponseHead, { isLast }: Relaying): string[] {
  const headers = keptHeaders(answer, FRAMING);
  const options = isLast ? ["close"] : [];
  if (answer.statusCode === UPGRADE_REQUIRED && answer.headers.upgrade) {
    headers.push("Upgrade", answer.headers.upgrade);
    options.unshift("Upgrade");
  }
  if (options.length > 0) headers.push("Connection", options.join(", "));
  return headers;
}

interface Message {
  readonly rawHeaders: readonly string[];
  readonly headers: { readonly connection?: string | undefined };
}

/** The headers of a message without those of its connection, names and values alternating. */
export function keptHeaders({ rawHeaders, headers }: Message, dropped: ReadonlySet<string> = OURS): string[] {
  const named = namedIn(headers.connection);
  const kept: string[] = [];
  for (let index = 0; index + 1 < rawHeaders.length; index += 2) {
    const name = rawHeaders[index] ?? "";
    const lower = name.toLowerCase();
    if (OF_CONNECTION.has(lower) || named.has(lower) || dropped.has(lower)) continue;
    kept.push(name, rawHeaders[index + 1] ?? "");
  }
  return kept;
}

/** The headers that `Connection` lists. */
function namedIn(connection: string | undefined): ReadonlySet<string> {
  if (connection === undefined) return NONE;
  const named = new Set(connection.split(",").map((name) => name.trim().toLowerCase()));
  // Without its length, a body would be parsed as another request, on a connection that clients share.
  for (const name of OF_REQUEST) named.delete(name);
  return named;
}

const NONE: ReadonlySet<string> = new Set();

/**
 * Without TLS of our own, a proxy in front of us may provide it. A client that forges the header only gets wrong URLs.
 */
function schemeOf({ socket, headers }: IncomingMessage): string {
  if (socket instanceof TLSSocket) return "https";
  return headers[SCHEME_HEADER.toLowerCase()] === "https" ? "https" : "http";
}

export function peerAddress({ socket }: IncomingMessage): string {
  return plainIp(socket.remoteAddress ?? "unknown");
}

export interface AddressSources {
  readonly bridgeSecret: string | undefined;
  /** The header that names a client's address; `PEER_HEADER` unless there is a proxy in front of the service. */
  readonly clientIpHeader: string;
}

/**
 * The address a request is counted under, the same as in the Worker: a bridge that knows the secret sends its client's.
 */
export function countedAddress(request: IncomingMessage, { bridgeSecret, clientIpHeader }: AddressSources): string {
  const shown = request.headers[BRIDGE_HEADER];
  const told = request.headers[BRIDGE_ADDRESS_HEADER];
  const isBridge = bridgeSecret !== undefined && typeof shown === "string" && isSame(shown, bridgeSecret);
  if (isBridge && typeof told === "string") return told;
  if (clientIpHeader.toLowerCase() === PEER_HEADER.toLowerCase()) return peerAddress(request);
  const named = request.headers[clientIpHeader.toLowerCase()];
  return typeof named === "string" && named !== "" ? named : "unknown";
}

function isSame(given: string, expected: string): boolean {
  const [a, b] = [Buffer.from(given), Buffer.from(expected)];
  return a.length === b.length && timingSafeEqual(a, b);
}
