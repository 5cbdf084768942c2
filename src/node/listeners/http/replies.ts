import type { IncomingMessage, ServerResponse } from "node:http";
import { setImmediate } from "node:timers/promises";
import { Outbox, type OutboxOwner, type PendingWrite, PIECE_BYTES, type WriteTimeout } from "../outbox.ts";

/** Limit of a request body that is discarded; the same as of one that is read. */
const MAX_UNWANTED_BYTES = 1_048_576;
const MAX_UNWANTED_MS = 1_000;
const UPGRADE_REQUIRED = 426;

/** Writes the app's response. Resolves when it is handed over; a client that reads slowly gets the rest later. */
export async function writeReply(
  response: Response,
  incoming: IncomingMessage,
  reply: ServerResponse,
  timeout: WriteTimeout,
): Promise<void> {
  const stated = response.headers.get("content-length");
  const stream = stated === null ? null : response.body;
  const body = stream || response.body === null ? undefined : Buffer.from(await response.arrayBuffer());
  // A body that has come with the head is parsed after it.
  if (!incoming.complete) await setImmediate();
  if (reply.destroyed) return stream?.cancel();
  const isWhole = incoming.complete;
  reply.sendDate = false;
  const length = stream ? Number(stated) : (body?.length ?? 0);
  // If a request is incomplete when it is answered, its connection cannot carry another one.
  const staysOpen = isWhole && reply.shouldKeepAlive;
  reply.writeHead(response.status, headersOf(response, incoming.method, length, staysOpen));
  if (stream) {
    incoming.resume();
    void writeStream(stream, reply, timeout);
    return;
  }
  if (isWhole && length <= PIECE_BYTES) {
    incoming.resume();
    reply.end(body);
    if (reply.writableLength > 0) watch(reply, timeout);
    return;
  }
  const outbox = new Outbox(reply, timeout, new CutOffWhenStalled(reply));
  reply.once("close", () => outbox.discard());
  if (body) outbox.add(body);
  else reply.flushHeaders();
  // The reply ends once the rest of the request's body has been read: see `swallow`.
  if (isWhole) {
    incoming.resume();
    outbox.end();
  } else swallow(incoming, () => outbox.end());
}

/**
 * Writes a body whose length the app has stated, piece by piece, as the client takes it. If it breaks off, so does the
 * connection: the client sees that something is missing.
 */
async function writeStream(
  body: ReadableStream<Uint8Array>,
  reply: ServerResponse,
  timeout: WriteTimeout,
): Promise<void> {
  const reader = body.getReader();
  let drained = Promise.withResolvers<void>();
  const outbox = new Outbox(reply, timeout, { drained: () => drained.resolve(), stalled: () => reply.destroy() });
  const leave = () => {
    outbox.discard();
    reader.cancel().catch(() => {});
    drained.resolve();
  };
  reply.once("close", leave);
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done || reply.destroyed) break;
      drained = Promise.withResolvers();
      outbox.add(Buffer.from(value.buffer, value.byteOffset, value.byteLength));
      await drained.promise;
    }
    outbox.end();
  } catch {
    reply.destroy();
  }
}

/** The framing of the body is ours. */
const FRAMING: ReadonlySet<string> = new Set(["connection", "content-length", "transfer-encoding"]);

function headersOf(response: Response, method: string | undefined, bodyBytes: number, staysOpen: boolean): string[] {
  const headers: string[] = [];
  for (const [name, value] of response.headers) if (!FRAMING.has(name)) headers.push(name, value);
  const { status } = response;
  if (method !== "HEAD" && status !== 204 && status !== 304) headers.push("content-length", String(bodyBytes));
  const options = staysOpen ? [] : ["close"];
  if (status === UPGRADE_REQUIRED) options.unshift("Upgrade");
  if (options.length > 0) headers.push("connection", options.join(", "));
  return headers;
}

class CutOffWhenStalled implements OutboxOwner, PendingWrite {
  readonly #reply: ServerResponse;
  since = 0;

  constructor(reply: ServerResponse) {
    this.#reply = reply;
  }

  drained(): void {}

  stalled(): void {
    this.#reply.destroy();
  }
}

/** Cuts a client off that does not take a short reply. */
function watch(reply: ServerResponse, timeout: WriteTimeout): void {
  const write = new CutOffWhenStalled(reply);
  timeout.add(write);
  reply.once("close", () => timeout.delete(write));
}

/**
 * Reads and discards the rest of a body whose request has been answered: closing with unread input would reset the
 * connection, and a reset can overtake the answer. Calls back when the body has ended, is too long or takes too long.
 */
function swallow(incoming: IncomingMessage, done: () => void): void {
  let bytes = 0;
  const stop = () => {
    clearTimeout(timer);
    incoming.off("data", count).off("end", stop).off("close", stop);
    done();
  };
  const count = (piece: Buffer) => {
    bytes += piece.length;
    if (bytes > MAX_UNWANTED_BYTES) stop();
  };
  const timer = setTimeout(stop, MAX_UNWANTED_MS);
  incoming.on("data", count).on("end", stop).on("close", stop);
  incoming.resume();
}
