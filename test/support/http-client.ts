/**
 * A bare HTTP/1.1 client: one connection per request, everything sent as it is given and shown as it came. It follows
 * nothing, repairs nothing and repeats nothing.
 */
import { type IncomingMessage, request } from "node:http";
import { connect } from "node:net";
import { stopwatch } from "./stopwatch.ts";

const DEFAULT_DEADLINE_MS = 20_000;

export interface HttpRequest {
  readonly method: string;
  /** Sent as it is, percent signs and double slashes included. */
  readonly path: string;
  readonly headers?: Readonly<Record<string, string>>;
  /** Absent: no body and no word about its length. */
  readonly body?: string | Uint8Array | undefined;
}

export interface HttpReply {
  readonly status: number;
  /** By names in lower case; one that came twice has both values, with a comma between. */
  readonly headers: Readonly<Record<string, string>>;
  /** As it came, decoded as UTF-8. */
  readonly body: string;
  /** From sending the request to the end of the reply. */
  readonly ms: number;
  /** The same, less what this machine stalled in between: see `stopwatch`. */
  readonly livedMs: number;
}

/** A request under way. */
export interface HttpExchange {
  /** Rejects when the connection ends without a whole reply, or none comes in time. */
  readonly reply: Promise<HttpReply>;
  /** Goes away without a word, as a client that ends its process: the connection is closed (FIN). */
  close(): void;
  /** Goes away as a client that crashes: the connection is reset (RST). */
  reset(): void;
}

export function startRequest(
  port: number,
  { method, path, headers = {}, body }: HttpRequest,
  deadlineMs = DEFAULT_DEADLINE_MS,
): HttpExchange {
  const socket = connect({ port, host: "127.0.0.1", noDelay: true });
  const [startedAt, elapsed] = [performance.now(), stopwatch()];
  const reply = Promise.withResolvers<HttpReply>();
  const sent = request({ createConnection: () => socket, method, path, headers });
  const end = (message: IncomingMessage, text: string) => {
    reply.resolve({
      status: message.statusCode ?? 0,
      headers: headersOf(message),
      body: text,
      ms: performance.now() - startedAt,
      livedMs: elapsed(),
    });
    socket.destroy();
  };
  sent.once("response", (message) => {
    const chunks: Buffer[] = [];
    message.on("data", (chunk: Buffer) => chunks.push(chunk));
    message.once("end", () => end(message, Buffer.concat(chunks).toString("utf8")));
    message.once("error", reply.reject);
  });
  // Who wants to speak over the socket after the 101 opens it otherwise.
  sent.once("upgrade", (message) => end(message, ""));
  sent.once("error", reply.reject);
  const timer = setTimeout(
    () => reply.reject(new Error(`no reply to ${method} ${path} within ${deadlineMs} ms`)),
    deadlineMs,
  );
  const settled = () => clearTimeout(timer);
  reply.promise.then(settled, settled);
  if (body === undefined) {
    sent.removeHeader("Content-Length");
    sent.removeHeader("Transfer-Encoding");
  } else if (!sent.hasHeader("Content-Length") && !sent.hasHeader("Transfer-Encoding")) {
    // Node leaves it out where a body is unusual, as with DELETE.
    sent.setHeader("Content-Length", Buffer.byteLength(body));
  }
  sent.end(body);
  return { reply: reply.promise, close: () => void socket.destroy(), reset: () => void socket.resetAndDestroy() };
}

/** Sends a request and returns its whole reply. */
export function send(port: number, wanted: HttpRequest, deadlineMs?: number): Promise<HttpReply> {
  return startRequest(port, wanted, deadlineMs).reply;
}

function headersOf({ rawHeaders }: IncomingMessage): Record<string, string> {
  const headers: Record<string, string> = {};
  for (let at = 0; at + 1 < rawHeaders.length; at += 2) {
    const [name, value] = [String(rawHeaders[at]).toLowerCase(), String(rawHeaders[at + 1])];
    headers[name] = name in headers ? `${headers[name]}, ${value}` : value;
  }
  return headers;
}
