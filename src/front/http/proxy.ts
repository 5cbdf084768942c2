import type { IncomingMessage, ServerResponse } from "node:http";
import { Outbox } from "../carriage/outbox.ts";
import type { Upstream } from "../workerd/supervisor.ts";
import { answerHeaders, forwardedHeaders } from "./headers.ts";
import { ERROR_HEADERS, errorBody } from "./refusals.ts";
import { swallow } from "./unwanted-body.ts";
import type { ExchangeEvents, UpstreamConnection, UpstreamConnections } from "./upstream-connections.ts";

const BUFFER_BYTES = 262_144;

/** How requests get to workerd. */
export interface Passage {
  readonly upstream: Upstream;
  /** Connections for ordinary requests. */
  readonly connections: UpstreamConnections;
  readonly hearsBridges: boolean;
  readonly writeTimeoutMs: number;
}

/**
 * Passes one HTTP request on to workerd, and its answer back. A client that hangs up immediately cancels its request.
 */
export function proxy(incoming: IncomingMessage, reply: ServerResponse, passage: Passage): void {
  const { connections } = passage;
  const idle = connections.takeIdle();
  if (idle) {
    pass(incoming, reply, idle, passage);
    return;
  }
  void connections.open().then((opened) => {
    if (!opened) refuse(incoming, reply, passage);
    else if (reply.destroyed) connections.keep(opened);
    else pass(incoming, reply, opened, passage);
  });
}

function pass(
  incoming: IncomingMessage,
  reply: ServerResponse,
  connection: UpstreamConnection,
  passage: Passage,
): void {
  const { hearsBridges, writeTimeoutMs } = passage;
  const outbox = new Outbox(reply, writeTimeoutMs, {
    drained: () => isAnswering && connection.resume(),
    stalled: () => reply.destroy(),
  });
  let isAnswering = true;
  const exchange: ExchangeEvents = {
    head: (head) => {
      reply.sendDate = false;
      const headers = answerHeaders(head, { isLast: isLast(incoming, reply) });
      reply.writeHead(head.statusCode, head.statusMessage, headers);
    },
    body: (bytes) => {
      outbox.add(bytes);
      if (outbox.size > BUFFER_BYTES) connection.pause();
    },
    end: () => {
      isAnswering = false;
      stop();
      afterBody(incoming, () => outbox.end());
    },
    drained: () => incoming.resume(),
    failed: () => {
      isAnswering = false;
      stop();
      if (reply.headersSent) reply.destroy();
      else refuse(incoming, reply, passage);
    },
  };
  const hangUp = () => {
    isAnswering = false;
    outbox.discard();
    connection.hangUp(exchange);
  };
  reply.on("close", hangUp);
  incoming.on("error", hangUp);
  connection.begin(incoming.method, requestHead(incoming, hearsBridges), exchange);
  const stop = passBody(incoming, connection);
  // A body that has come with the head is read first.
  process.nextTick(() => connection.flush());
}

/** The head of a request as sent to workerd. */
function requestHead(incoming: IncomingMessage, hearsBridges: boolean): string {
  const headers = forwardedHeaders(incoming, { isUpgrade: false, hearsBridges });
  const { "content-length": length, "transfer-encoding": encoding } = incoming.headers;
  if (length === undefined && encoding === undefined && !WITHOUT_BODY.has(incoming.method)) {
    headers.push("Content-Length", "0");
  }
  let head = `${incoming.method} ${incoming.url} HTTP/1.1\r\n`;
  for (let index = 0; index < headers.length; index += 2) head += `${headers[index]}: ${headers[index + 1]}\r\n`;
  return `${head}\r\n`;
}

/** Passes on the body of a request. Returns a function that stops this. */
function passBody(incoming: IncomingMessage, connection: UpstreamConnection): () => void {
  const { "content-length": length, "transfer-encoding": encoding } = incoming.headers;
  // Without a length there is no body: nothing may follow the head.
  if (length === undefined && encoding === undefined) {
    connection.sent();
    return () => {};
  }
  const isChunked = encoding !== undefined;
  const write = (bytes: Buffer) => {
    const mayGoOn = isChunked ? connection.write(chunkOf(bytes)) : connection.write(bytes);
    if (!mayGoOn) incoming.pause();
  };
  const end = () => {
    if (isChunked) connection.write(LAST_CHUNK);
    connection.sent();
  };
  incoming.on("data", write).on("end", end);
  return () => incoming.off("data", write).off("end", end);
}

/** Methods whose requests need not say that they have no body. */
const WITHOUT_BODY: ReadonlySet<string | undefined> = new Set(["GET", "HEAD", "DELETE", "OPTIONS", "TRACE"]);

const LAST_CHUNK = "0\r\n\r\n";

function chunkOf(bytes: Buffer): Buffer {
  return Buffer.concat([Buffer.from(`${bytes.length.toString(16)}\r\n`), bytes, Buffer.from("\r\n")]);
}

/** If a request is incomplete when it is answered, its connection cannot carry another one. */
function isLast({ complete }: IncomingMessage, { shouldKeepAlive }: ServerResponse): boolean {
  return !complete || !shouldKeepAlive;
}

/** Ends a reply that was already sent, once the rest of the request's body is read or proves too long. */
function afterBody(incoming: IncomingMessage, end: () => void): void {
  if (!incoming.complete) {
    swallow(incoming, end);
    return;
  }
  incoming.resume();
  end();
}

/** Answers a request that workerd did not answer. */
function refuse(incoming: IncomingMessage, reply: ServerResponse, { upstream }: Passage): void {
  if (upstream.isEnding) {
    reply.destroy();
    return;
  }
  const body = errorBody("unavailable");
  const headers = { ...ERROR_HEADERS, "Retry-After": "1", "Content-Length": Buffer.byteLength(body) };
  reply.writeHead(503, isLast(incoming, reply) ? { ...headers, Connection: "close" } : headers);
  reply.write(body);
  afterBody(incoming, () => reply.end());
}
