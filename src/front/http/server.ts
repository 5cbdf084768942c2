import { createServer as createHttpServer, type IncomingMessage, type Server } from "node:http";
import { createServer as createHttpsServer } from "node:https";
import type { Socket } from "node:net";
import type { Duplex } from "node:stream";
import type { AdmissionQueue } from "../limits/admission.ts";
import type { Connections } from "../limits/connections.ts";
import type { Upstream } from "../workerd/supervisor.ts";
import { headFault } from "./head-faults.ts";
import { type AddressSources, countedAddress } from "./headers.ts";
import { RequestTurns } from "./pipelining.ts";
import { type Passage, proxy } from "./proxy.ts";
import { refusal, sayGoodbye } from "./refusals.ts";
import { announcesBody, asksForWebSocket, upgrade } from "./upgrade.ts";
import { UpstreamConnections } from "./upstream-connections.ts";

export interface HttpFrontOptions extends AddressSources {
  readonly upstream: Upstream;
  readonly connections: Connections;
  readonly admission: AdmissionQueue;
  readonly writeTimeoutMs: number;
  /** How long the head of a request may take. */
  readonly headTimeoutMs: number;
  readonly tls: { readonly cert: Buffer; readonly key: Buffer } | undefined;
}

/** Longer heads are answered with 431. A ticket in a URL may be as long as its list of keys. */
const MAX_HEAD_BYTES = 65_536;
const IDLE_MS = 65_000;
const LOOK_EVERY_MS = 5_000;

/** HTTP and WebSocket server for connections passed in with `emit("connection", socket)`. */
export function httpFront(options: HttpFrontOptions): Server {
  const { tls, headTimeoutMs } = options;
  const settings = {
    maxHeaderSize: MAX_HEAD_BYTES,
    headersTimeout: headTimeoutMs,
    // The Worker answers a body that takes longer than `headTimeoutMs`. This ends requests that it does not answer.
    requestTimeout: 2 * headTimeoutMs,
    keepAliveTimeout: IDLE_MS,
    connectionsCheckingInterval: Math.min(LOOK_EVERY_MS, headTimeoutMs),
    requireHostHeader: false,
    shouldUpgradeCallback: (request: IncomingMessage) => asksForWebSocket(request) && !announcesBody(request),
  };
  const server: Server = tls
    ? createHttpsServer({ ...settings, ...tls, handshakeTimeout: headTimeoutMs })
    : createHttpServer(settings);
  const passage: Passage = {
    upstream: options.upstream,
    connections: new UpstreamConnections(options.upstream),
    hearsBridges: options.bridgeSecret !== undefined,
    writeTimeoutMs: options.writeTimeoutMs,
  };
  // Node starts to check for late heads and idle connections only on this event.
  server.emit("listening");
  const turns = new RequestTurns();
  server.on("request", (incoming, reply) =>
    turns.run(incoming, reply, () => {
      const fault = headFault(incoming);
      if (fault) sayGoodbye(incoming.resume().socket, fault);
      else proxy(incoming, reply, passage);
    }),
  );
  server.on("upgrade", (incoming, client, head) => {
    // Answers to earlier requests would end up among the frames.
    if (turns.isBusy(client)) client.destroy();
    else open(incoming, client, head, options, passage);
  });
  server.on("connect", (_, client) => sayGoodbye(client, refusal(501, "not_implemented")));
  server.on("clientError", (error: Error & { readonly code?: string }, client) => {
    // While a request is being answered, this would be taken for its answer.
    if (!client.writable || error.code === "ECONNRESET" || turns.isBusy(client)) client.destroy();
    else sayGoodbye(client, refusalOf(error.code));
  });
  return server;
}

function open(
  incoming: IncomingMessage,
  client: Duplex,
  head: Buffer,
  options: HttpFrontOptions,
  passage: Passage,
): void {
  const fault = headFault(incoming);
  if (fault) {
    sayGoodbye(client, fault);
    return;
  }
  const address = countedAddress(incoming, options);
  const counted = options.connections.admit(address);
  if (typeof counted === "string") {
    sayGoodbye(client, refusal(503, counted));
    return;
  }
  client.once("close", counted);
  options.connections.becameWebSocket(client as Socket);
  (client as Socket).setTimeout(0);
  void upgrade(incoming, client, head, { address, admission: options.admission, passage });
}

/** Requests that cannot be parsed are answered here; workerd never sees them. */
function refusalOf(code: string | undefined): string {
  if (code === "HPE_HEADER_OVERFLOW") return refusal(431, "bad_request");
  if (code === "ERR_HTTP_REQUEST_TIMEOUT") return refusal(408, "bad_request");
  if (code === "HPE_INVALID_METHOD") return refusal(501, "not_implemented");
  return refusal(400, "bad_request");
}
