import type { IncomingMessage, ServerResponse } from "node:http";
import type { Duplex } from "node:stream";

/** A client that sends more requests without waiting for an answer is cut off: each takes some kilobytes here. */
const MAX_WAITING = 1_000;

/**
 * Requests that a client sends without waiting for the answers before (pipelining) are carried out one after the other: Node
 * would hand all of them over at once, and each takes a connection to workerd.
 */
export class RequestTurns {
  readonly #waiting = new WeakMap<Duplex, (() => void)[]>();

  /** A request of this connection is being answered. */
  isBusy(socket: Duplex): boolean {
    return this.#waiting.has(socket);
  }

  /** Runs `answer` when the requests before this one on its connection are answered, or never if the connection ends. */
  run({ socket }: IncomingMessage, reply: ServerResponse, answer: () => void): void {
    reply.once("close", () => this.#next(socket));
    const waiting = this.#waiting.get(socket);
    if (waiting === undefined) {
      this.#waiting.set(socket, []);
      answer();
    } else if (waiting.push(answer) > MAX_WAITING) socket.destroy();
  }

  #next(socket: Duplex): void {
    const answer = socket.destroyed ? undefined : this.#waiting.get(socket)?.shift();
    if (answer) answer();
    else this.#waiting.delete(socket);
  }
}
