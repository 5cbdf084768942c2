import { type ClientRequest, type IncomingMessage, request, type ServerResponse } from "node:http";
import type { Socket } from "node:net";
import { Outbox } from "../carriage/outbox.ts";
import type { Upstream } from "../workerd/supervisor.ts";
import { answerHeaders, forwardedHeaders } from "./headers.ts";
import { ERROR_HEADERS, errorBody } from "./refusals.ts";
import { swallow } from "./unwanted-body.ts";
import type { UpstreamAgent } from "./upstream-agent.ts";

const BUFFER_BYTES = 262_144;

/** How requests get to workerd. */
export interface Passage {
  readonly upstream: Upstream;
  /** Connections for ordinary requests. */
  readonly agent: UpstreamAgent;
  readonly hearsBridges: boolean;
  readonly writeTimeoutMs: number;
}

/**
 * Passes one HTTP request on to workerd, and its answer back. A client that hangs up immediately cancels its request.
 */
export function proxy(
  incoming: IncomingMessage,
  reply: ServerResponse,
  { upstream, agent, hearsBridges, writeTimeoutMs }: Passage,
): void {
  const outgoing = request({
    agent,
    setHost: false,
    method: incoming.method,
    path: incoming.url,
    headers: forwardedHeaders(incoming, { isUpgrade: false, hearsBridges }),
  });
  outgoing.on("response", (answer) => {
    if (!outgoing.writableFinished) agent.retire(outgoing);
    relay(incoming, answer, reply, outgoing, writeTimeoutMs);
  });
  outgoing.on("error", () => {
    // After an answer, only the rest of an unwanted body was lost.
    if (reply.headersSent) return;
    if (upstream.isEnding) reply.destroy();
    else unavailable(incoming, reply);
  });
  reply.on("close", () => {
    if (!reply.writableFinished) hangUp(outgoing);
  });
  incoming.on("error", () => hangUp(outgoing));
  // Without a length there is no body: nothing may follow the head.
  const { "content-length": length, "transfer-encoding": encoding } = incoming.headers;
  if (length === undefined && encoding === undefined) outgoing.end();
  else incoming.pipe(outgoing);
}

function relay(
  incoming: IncomingMessage,
  answer: IncomingMessage,
  reply: ServerResponse,
  outgoing: ClientRequest,
  writeTimeoutMs: number,
): void {
  const outbox = new Outbox(reply, writeTimeoutMs, {
    drained: () => answer.resume(),
    stalled: () => reply.destroy(),
  });
  reply.sendDate = false;
  reply.writeHead(
    answer.statusCode ?? 502,
    answer.statusMessage,
    answerHeaders(answer, { isLast: isLast(incoming, reply) }),
  );
  answer.on("data", (bytes: Buffer) => {
    outbox.add(bytes);
    if (outbox.size > BUFFER_BYTES) answer.pause();
  });
  answer.on("end", () => {
    if (!outgoing.writableFinished) outgoing.destroy();
    afterBody(incoming, () => outbox.end());
  });
  answer.on("error", () => reply.destroy());
  reply.on("close", () => {
    outbox.discard();
    if (!answer.complete) hangUp(outgoing);
  });
}

/** Closes the connection to workerd so that it notices: on TCP only a reset does that (workerd 2026-11). */
export function hangUp(outgoing: ClientRequest): void {
  // Its connection may serve another request by now.
  if (outgoing.destroyed) return;
  const socket = outgoing.socket as Socket | null;
  if (socket?.remoteFamily !== undefined) socket.resetAndDestroy();
  outgoing.destroy();
}

/** If a request is incomplete when it is answered, its connection cannot carry another one. */
function isLast({ complete }: IncomingMessage, { shouldKeepAlive }: ServerResponse): boolean {
  return !complete || !shouldKeepAlive;
}

/** Ends a reply that was already sent, once the rest of the request's body is read or proves too long. */
function afterBody(incoming: IncomingMessage, end: () => void): void {
  incoming.unpipe();
  if (!incoming.complete) {
    swallow(incoming, end);
    return;
  }
  incoming.resume();
  end();
}

function unavailable(incoming: IncomingMessage, reply: ServerResponse): void {
  const body = errorBody("unavailable");
  const headers = { ...ERROR_HEADERS, "Retry-After": "1", "Content-Length": Buffer.byteLength(body) };
  reply.writeHead(503, isLast(incoming, reply) ? { ...headers, Connection: "close" } : headers);
  reply.write(body);
  afterBody(incoming, () => reply.end());
}
