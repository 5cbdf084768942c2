import type { Socket } from "node:net";
import { reach } from "../workerd/reach.ts";
import type { Upstream } from "../workerd/supervisor.ts";
import { type ResponseEvents, ResponseParser } from "./response-parser.ts";

/**
 * workerd closes an idle connection after 15 seconds (2026-11). Ours are closed long before, so that a close never
 * coincides with a request.
 */
const MAX_IDLE_MS = 2_000;
/** Few enough to be negligible among the open files. */
const MAX_IDLE = 16;

/**
 * Keep-alive connections to workerd, each used for one request at a time: opening one costs both sides more than a
 * request. A connection closed during a request, as after a hang-up, is never used again.
 */
export class UpstreamConnections {
  readonly #upstream: Upstream;
  readonly #idle: UpstreamConnection[] = [];

  constructor(upstream: Upstream) {
    this.#upstream = upstream;
  }

  /** The connection used last of those that are idle. */
  takeIdle(): UpstreamConnection | undefined {
    let connection = this.#idle.pop();
    while (connection && !connection.isOpen) connection = this.#idle.pop();
    return connection;
  }

  /** A new connection; undefined if workerd cannot be reached. */
  async open(): Promise<UpstreamConnection | undefined> {
    const socket = await reach(this.#upstream);
    return (
      socket &&
      new UpstreamConnection(socket, {
        idle: (connection) => this.keep(connection),
        closed: (connection) => this.#drop(connection),
      })
    );
  }

  /** Keeps a connection for the next request. */
  keep(connection: UpstreamConnection): void {
    if (this.#idle.length >= MAX_IDLE) connection.destroy();
    else {
      connection.rest(MAX_IDLE_MS);
      this.#idle.push(connection);
    }
  }

  #drop(connection: UpstreamConnection): void {
    const index = this.#idle.indexOf(connection);
    if (index >= 0) this.#idle.splice(index, 1);
  }
}

interface Owner {
  /** A request has been answered, and the connection may carry another one. */
  idle(connection: UpstreamConnection): void;
  closed(connection: UpstreamConnection): void;
}

/** What becomes of a request. */
export interface ExchangeEvents extends ResponseEvents {
  /** More of the body may be written. */
  drained(): void;
  /** The connection broke, or carried something else than a response. */
  failed(): void;
}

/** A connection to workerd. */
export class UpstreamConnection {
  readonly #socket: Socket;
  readonly #owner: Owner;
  /** The request being answered. */
  #events: ExchangeEvents | undefined;
  #parser: ResponseParser | undefined;
  #isSent = false;
  #isReusable = true;

  constructor(socket: Socket, owner: Owner) {
    this.#socket = socket;
    this.#owner = owner;
    socket.on("data", (bytes: Buffer) => this.#take(bytes));
    socket.on("drain", () => this.#events?.drained());
    socket.on("timeout", () => socket.destroy());
    socket.on("close", () => this.#closed());
  }

  get isOpen(): boolean {
    return this.#socket.writable && !this.#socket.destroyed;
  }

  /** Begins a request. Its head travels with what is written before `flush`. */
  begin(method: string | undefined, head: string, events: ExchangeEvents): void {
    this.#events = events;
    this.#isSent = false;
    this.#parser = new ResponseParser(method, {
      head: (response) => {
        const { connection, "content-length": length, "transfer-encoding": encoding } = response.headers;
        const isFramed = length !== undefined || encoding !== undefined || response.statusCode === 204;
        this.#isReusable = isFramed && !/\bclose\b/i.test(connection ?? "");
        events.head(response);
      },
      body: (bytes) => events.body(bytes),
      end: () => this.#answered(events),
    });
    const socket = this.#socket;
    socket.setTimeout(0);
    socket.cork();
    socket.write(head, "latin1");
  }

  flush(): void {
    this.#socket.uncork();
  }

  /** Writes a part of the body. False if it is to wait for `drained` before the next one. */
  write(bytes: Buffer | string): boolean {
    return this.#socket.write(bytes);
  }

  /** The whole request has been written. */
  sent(): void {
    this.#isSent = true;
  }

  pause(): void {
    this.#socket.pause();
  }

  resume(): void {
    this.#socket.resume();
  }

  /** Ends a request that no longer needs an answer. */
  hangUp(events: ExchangeEvents): void {
    // The connection may serve another request by now.
    if (this.#events !== events) return;
    this.#events = undefined;
    // workerd notices: on TCP only a reset does that (workerd 2026-11).
    if (this.#socket.remoteFamily !== undefined) this.#socket.resetAndDestroy();
    else this.#socket.destroy();
  }

  /** Closes the connection unless it is used within this time. */
  rest(ms: number): void {
    this.#socket.setTimeout(ms);
  }

  destroy(): void {
    this.#socket.destroy();
  }

  #take(bytes: Buffer): void {
    // Nothing may come between two requests.
    if (!this.#events) this.#socket.destroy();
    else {
      try {
        this.#parser?.take(bytes);
      } catch {
        this.#fail();
      }
    }
  }

  #answered(events: ExchangeEvents): void {
    this.#events = undefined;
    this.#socket.resume();
    // workerd may close the connection itself if it answers before it has the whole request.
    if (this.#isSent && this.#isReusable && this.#socket.writableLength === 0) this.#owner.idle(this);
    else this.#socket.destroy();
    events.end();
  }

  #fail(): void {
    const events = this.#events;
    this.#events = undefined;
    this.#socket.destroy();
    events?.failed();
  }

  #closed(): void {
    this.#owner.closed(this);
    if (this.#events && !this.#parser?.close()) this.#fail();
  }
}
