import { createServer as createHttpServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import { createServer as createHttpsServer } from "node:https";
import type { Socket } from "node:net";
import { getRequestListener } from "@hono/node-server";
import { RESPONSE_ALREADY_SENT } from "@hono/node-server/utils/response";
import { JSON_HEADERS } from "../../../http/reply/errors.ts";
import { plainIp } from "../addresses.ts";
import { sendAndClose } from "../lingering-close.ts";
import type { WriteTimeout } from "../outbox.ts";
import type { WebSockets } from "../websocket.ts";
import { announcesBody, asksForWebSocket, BAD_HOST, headFault, prepareHead } from "./heads.ts";
import { Pace } from "./pace.ts";
import { RequestTurns } from "./pipelining.ts";
import { parseRefusal, refusal, refusalBody } from "./refusals.ts";
import { writeReply } from "./replies.ts";
import { openWebSocket } from "./upgrades.ts";

/** The app. `address` is that of the connection. */
export type Fetch = (request: Request, address: string) => Response | Promise<Response>;

export interface HttpOptions {
  readonly fetch: Fetch;
  readonly sockets: WebSockets;
  readonly writeTimeout: WriteTimeout;
  /** How long the head of a request may take. */
  readonly headTimeoutMs: number;
  readonly tls: { readonly cert: Buffer; readonly key: Buffer } | undefined;
  readonly log: (line: string) => void;
}

/** Longer heads are answered with 431. A ticket in a URL may be as long as its list of keys. */
const MAX_HEAD_BYTES = 65_536;
const IDLE_MS = 65_000;
const LOOK_EVERY_MS = 5_000;

export interface HttpListener {
  /** Takes a connection. */
  accept(client: Socket): void;
  /** Closes connections that wait for their next request. */
  closeIdleConnections(): void;
  /** Lets go of all requests, without aborting them: their connections are about to be dropped by us. */
  cut(): void;
}

/** HTTP and WebSockets on connections that are passed in. */
export function httpListener(options: HttpOptions): HttpListener {
  const server = serverWith(options);
  const turns = new RequestTurns();
  const pace = new Pace();
  const replies = new Set<ServerResponse>();
  const answer = requestListener(options);
  const begin = (incoming: IncomingMessage, reply: ServerResponse) => {
    if (reply.destroyed) return;
    const fault = headFault(incoming);
    if (fault) {
      sendAndClose(incoming.resume().socket, fault);
      return;
    }
    replies.add(reply);
    reply.once("close", () => replies.delete(reply));
    prepareHead(incoming);
    void answer(incoming, reply);
  };
  server.on("request", (incoming, reply) => turns.run(incoming, reply, () => pace.begin(() => begin(incoming, reply))));
  server.on("upgrade", (incoming: IncomingMessage, client: Socket, head: Buffer) => {
    const fault = headFault(incoming);
    // Answers to earlier requests would end up among the frames.
    if (turns.isBusy(client)) client.destroy();
    else if (fault) sendAndClose(client, fault);
    else {
      const upgrade = { incoming, socket: client, head, address: addressOf(client) };
      pace.begin(() => {
        if (!client.destroyed) void openWebSocket(upgrade, options);
      });
    }
  });
  server.on("connect", (_, client) =>
    sendAndClose(client, refusal(501, "not_implemented", { detail: "CONNECT is not supported" })),
  );
  server.on("clientError", (error: Error & { readonly code?: string }, client) => {
    // While a request is being answered, this would be taken for its answer.
    if (!client.writable || error.code === "ECONNRESET" || turns.isBusy(client)) client.destroy();
    else sendAndClose(client, parseRefusal(error.code));
  });
  return {
    accept: (client) => void server.emit("connection", client),
    closeIdleConnections: () => server.closeIdleConnections(),
    cut() {
      for (const reply of replies) reply.removeAllListeners("close");
      replies.clear();
      server.close();
    },
  };
}

function serverWith({ tls, headTimeoutMs }: HttpOptions): Server {
  const settings = {
    maxHeaderSize: MAX_HEAD_BYTES,
    headersTimeout: headTimeoutMs,
    // The app answers a body that takes longer than `headTimeoutMs`. This ends requests that it does not answer.
    requestTimeout: 2 * headTimeoutMs,
    keepAliveTimeout: IDLE_MS,
    connectionsCheckingInterval: Math.min(LOOK_EVERY_MS, headTimeoutMs),
    requireHostHeader: false,
    shouldUpgradeCallback: (request: IncomingMessage) => asksForWebSocket(request) && !announcesBody(request),
  };
  const server: Server = tls
    ? createHttpsServer({ ...settings, ...tls, handshakeTimeout: headTimeoutMs })
    : createHttpServer(settings);
  // Node starts to check for late heads and idle connections only on this event.
  server.emit("listening");
  return server;
}

type RequestListener = (incoming: IncomingMessage, reply: ServerResponse) => Promise<void>;

/** Answers requests with the app. Node's adapter makes the `Request`; its way to write would not see stalled readers. */
function requestListener({ fetch, writeTimeout, log }: HttpOptions): RequestListener {
  const listener = getRequestListener(
    async (request, { incoming, outgoing }) => {
      const message = incoming as IncomingMessage;
      const reply = outgoing as ServerResponse;
      try {
        await writeReply(await fetch(request, addressOf(message.socket)), message, reply, writeTimeout);
      } catch (error) {
        log(`a request was not answered: ${String(error)}`);
        reply.destroy();
      }
      return RESPONSE_ALREADY_SENT;
    },
    {
      // The server may be embedded in another program.
      overrideGlobalObjects: false,
      // Only a URL that cannot be made of the head ends up here.
      errorHandler: () => new Response(refusalBody("bad_request", BAD_HOST), { status: 400, headers: JSON_HEADERS }),
    },
  );
  return listener as RequestListener;
}

const addressOf = ({ remoteAddress }: Socket) => plainIp(remoteAddress ?? "unknown");
