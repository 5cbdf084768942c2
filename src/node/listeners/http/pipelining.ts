import type { IncomingMessage, ServerResponse } from "node:http";
import type { Duplex } from "node:stream";

/**
 * Requests of one connection that may wait behind the one being answered. Each takes a few kilobytes besides its head.
 */
const MAX_WAITING = 256;
/** Limit for their heads and bodies together. */
const MAX_WAITING_BYTES = 262_144;
/** How much Node buffers of a body that is not read yet. */
const MAX_BUFFERED_BODY_BYTES = 65_536;

interface Waiting {
  readonly answer: () => void;
  readonly bytes: number;
}

interface Queue {
  readonly waiting: Waiting[];
  bytes: number;
}

/**
 * Pipelined requests of one connection are processed one after the other: Node would deliver all of them at once. A
 * client that sends too many is cut off instead of paused: a paused connection does not report that its client has hung
 * up.
 */
export class RequestTurns {
  readonly #queues = new WeakMap<Duplex, Queue>();

  /** Whether a request of this connection is being answered. */
  isBusy(socket: Duplex): boolean {
    return this.#queues.has(socket);
  }

  /** Runs `answer` once the earlier requests on the connection are answered, or never if the connection ends. */
  run(request: IncomingMessage, reply: ServerResponse, answer: () => void): void {
    const { socket } = request;
    // Node still parses what it has already read from a connection that was cut off.
    if (socket.destroyed) return;
    reply.once("close", () => this.#next(socket));
    const queue = this.#queues.get(socket);
    if (queue === undefined) {
      this.#queues.set(socket, { waiting: [], bytes: 0 });
      answer();
      return;
    }
    const bytes = bytesOf(request);
    queue.bytes += bytes;
    queue.waiting.push({ answer, bytes });
    if (queue.waiting.length <= MAX_WAITING && queue.bytes <= MAX_WAITING_BYTES) return;
    this.#queues.delete(socket);
    socket.destroy();
  }

  #next(socket: Duplex): void {
    const queue = this.#queues.get(socket);
    const next = socket.destroyed ? undefined : queue?.waiting.shift();
    if (queue === undefined || next === undefined) {
      this.#queues.delete(socket);
      return;
    }
    queue.bytes -= next.bytes;
    next.answer();
  }
}

/** What a waiting request costs: its head, and as much of its body as is buffered. */
function bytesOf({ url = "", rawHeaders, headers }: IncomingMessage): number {
  const head = rawHeaders.reduce((bytes, text) => bytes + text.length, url.length);
  if (headers["transfer-encoding"] !== undefined) return head + MAX_BUFFERED_BODY_BYTES;
  return head + Math.min(Number(headers["content-length"] ?? 0), MAX_BUFFERED_BODY_BYTES);
}
