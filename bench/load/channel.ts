/** A connection that carries one request at a time. Replies go to a callback: a promise for each would cost more than the request. */
import { connect, type Socket } from "node:net";

export interface Address {
  readonly host: string;
  readonly port: number;
}

/** How a protocol marks where a message ends. Bytes are latin1 strings. */
export interface Framing {
  wrap(request: string): string;
  /** Length of the first whole reply in the text; 0 if it is not whole yet. */
  lengthOf(text: string): number;
  unwrap(reply: string): string;
}

export const LINES: Framing = {
  wrap: (request) => request,
  lengthOf: (text) => text.indexOf("\n") + 1,
  unwrap: (reply) => reply,
};

/** One for all connections: a read is handed over before the next one begins. */
const READ_BUFFER = Buffer.allocUnsafe(64 * 1024);

export class Channel {
  readonly #socket: Socket;
  readonly #framing: Framing;
  #received = "";
  #answered: (reply: string) => void = () => {};
  /** For the connection, or for a reply. */
  #isWaiting = true;

  private constructor(address: Address, framing: Framing, opened: () => void) {
    this.#framing = framing;
    this.#socket = connect({
      ...address,
      noDelay: true,
      onread: {
        buffer: READ_BUFFER,
        callback: (length) => {
          this.#take(READ_BUFFER.toString("latin1", 0, length));
          return true;
        },
      },
    });
    this.#socket.once("connect", () => {
      this.#isWaiting = false;
      opened();
    });
    this.#socket.on("error", (error) => this.#fail(error.message));
    this.#socket.on("close", () => this.#fail("the server closed the connection"));
  }

  static open(address: Address, framing: Framing): Promise<Channel> {
    return new Promise((resolve) => {
      const channel = new Channel(address, framing, () => resolve(channel));
    });
  }

  ask(request: string, answered: (reply: string) => void): void {
    this.#answered = answered;
    this.#isWaiting = true;
    this.#socket.write(this.#framing.wrap(request), "latin1");
  }

  /** The same as a promise, for requests that are made once. */
  asked(request: string): Promise<string> {
    return new Promise((resolve) => this.ask(request, resolve));
  }

  close(): void {
    this.#isWaiting = false;
    this.#socket.end();
  }

  #take(text: string): void {
    const received = this.#received === "" ? text : this.#received + text;
    const length = this.#framing.lengthOf(received);
    if (length === 0) {
      this.#received = received;
      return;
    }
    this.#received = received.slice(length);
    this.#isWaiting = false;
    this.#answered(this.#framing.unwrap(received.slice(0, length)));
  }

  /** Nothing is retried: a benchmark that loses a connection in use has failed. */
  #fail(reason: string): void {
    if (this.#isWaiting) throw new Error(reason);
  }
}
