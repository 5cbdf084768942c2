import { Agent, type ClientRequest, type ClientRequestArgs } from "node:http";
import type { Duplex } from "node:stream";
import { reach } from "../workerd/reach.ts";
import type { Upstream } from "../workerd/supervisor.ts";

/** workerd closes an idle connection after 15 seconds (2026-11). Ours go long before: a close must never meet a request under way. */
const MAX_IDLE_MS = 2_000;
/** Few enough not to count among the open files. */
const MAX_IDLE = 16;

/**
 * Connections to workerd, each for one request at a time, and for another one after it: opening one costs both sides more than a
 * request. One that is closed while a request is under way, as after a hang-up, is never used again.
 */
export class UpstreamAgent extends Agent {
  readonly #upstream: Upstream;
  readonly #retired = new WeakSet<Duplex>();

  constructor(upstream: Upstream) {
    super({ keepAlive: true, timeout: MAX_IDLE_MS, maxFreeSockets: MAX_IDLE });
    this.#upstream = upstream;
  }

  /** Node asks here for a connection, and keeps the request until there is one. */
  override createConnection(_: ClientRequestArgs, created?: (error: Error | null, socket: Duplex) => void): undefined {
    void reach(this.#upstream).then((socket) => {
      if (socket) created?.(null, socket);
      // With an error, Node looks for no socket.
      else created?.(new Error("workerd cannot be reached"), undefined as never);
    });
  }

  /** Closes the connection after this request: workerd may do so itself if it answers before it has the whole request. */
  retire({ socket }: ClientRequest): void {
    if (socket) this.#retired.add(socket);
  }

  /** Node asks here whether a connection may carry another request. */
  override keepSocketAlive(socket: Duplex): boolean {
    if (this.#retired.has(socket)) return false;
    super.keepSocketAlive(socket);
    return true;
  }
}
