import { type ClientRequest, type IncomingMessage, request, type ServerResponse } from "node:http";
import type { Socket } from "node:net";
import { answerHeaders, forwardedHeaders } from "./headers.ts";
import { Outbox } from "./outbox.ts";
import { ERROR_HEADERS, errorBody } from "./refusals.ts";
import type { Upstream } from "./supervisor.ts";
import { UpstreamAgent } from "./upstream-agent.ts";
import type { Listen } from "./workerd-config.ts";

const BUFFER_BYTES = 262_144;

/** How requests get to workerd. */
export interface Passage {
  readonly upstream: Upstream;
  readonly hearsBridges: boolean;
  readonly writeTimeoutMs: number;
}

/** Shared by all: it keeps connections apart by where they go. */
const connections = new UpstreamAgent();

/** Options of a request to workerd that hold for all of them. */
export function toWorkerd(listen: Listen) {
  // No other request is under way on its connection: closing that is how workerd learns that the client is gone.
  const where = "path" in listen ? { socketPath: listen.path } : { host: listen.host, port: listen.port };
  return { ...where, agent: false, setHost: false, joinDuplicateHeaders: false } as const;
}

/** Passes one HTTP request on to workerd, and its answer back. A client that leaves takes its request along at once. */
export async function proxy(
  incoming: IncomingMessage,
  reply: ServerResponse,
  { upstream, hearsBridges, writeTimeoutMs }: Passage,
): Promise<void> {
  const listen = await upstream.ready();
  if (reply.destroyed) return;
  if (!listen) {
    unavailable(reply);
    return;
  }
  const outgoing = request({
    ...toWorkerd(listen),
    agent: connections,
    method: incoming.method,
    path: incoming.url,
    headers: forwardedHeaders(incoming, { isUpgrade: false, hearsBridges }),
  });
  outgoing.on("response", (answer) => {
    if (!outgoing.writableFinished) connections.retire(outgoing);
    relay(answer, reply, outgoing, writeTimeoutMs);
  });
  outgoing.on("error", () => {
    // After an answer, it was the rest of a body that nobody wanted.
    if (reply.headersSent) return;
    if (upstream.isEnding) reply.destroy();
    else unavailable(reply);
  });
  reply.on("close", () => {
    if (!reply.writableFinished) hangUp(outgoing);
  });
  incoming.on("error", () => hangUp(outgoing));
  // Without a length there is no body: nothing may follow the head.
  const { "content-length": length, "transfer-encoding": encoding } = incoming.headers;
  if (length === undefined && encoding === undefined) outgoing.end();
  else incoming.pipe(outgoing);
  // What workerd does not take any more is read and forgotten, or the connection's next request would never be seen.
  outgoing.on("close", () => incoming.unpipe(outgoing).resume());
}

function relay(answer: IncomingMessage, reply: ServerResponse, outgoing: ClientRequest, writeTimeoutMs: number): void {
  const outbox = new Outbox(reply, writeTimeoutMs, {
    drained: () => answer.resume(),
    stalled: () => reply.destroy(),
  });
  reply.sendDate = false;
  reply.writeHead(answer.statusCode ?? 502, answer.statusMessage, answerHeaders(answer));
  answer.on("data", (bytes: Buffer) => {
    outbox.add(bytes);
    if (outbox.size > BUFFER_BYTES) answer.pause();
  });
  answer.on("end", () => outbox.end());
  answer.on("error", () => reply.destroy());
  reply.on("close", () => {
    outbox.discard();
    if (!answer.complete) hangUp(outgoing);
  });
}

/** Closes the connection to workerd so that it notices: on TCP only a reset does that (workerd 2026-11). */
export function hangUp(outgoing: ClientRequest): void {
  // Its connection may serve somebody else by now.
  if (outgoing.destroyed) return;
  const socket = outgoing.socket as Socket | null;
  if (socket?.remoteFamily !== undefined) socket.resetAndDestroy();
  outgoing.destroy();
}

function unavailable(reply: ServerResponse): void {
  reply.writeHead(503, { ...ERROR_HEADERS, "Retry-After": "1" }).end(errorBody("unavailable"));
}
