import { Agent, type ClientRequest, type ClientRequestArgs } from "node:http";
import type { Duplex } from "node:stream";
import { reach } from "../workerd/reach.ts";
import type { Upstream } from "../workerd/supervisor.ts";

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
export class UpstreamAgent extends Agent {
  readonly #upstream: Upstream;
  readonly #retired = new WeakSet<Duplex>();

  constructor(upstream: Upstream) {
    super({ keepAlive: true, timeout: MAX_IDLE_MS, maxFreeSockets: MAX_IDLE });
    this.#upstream = upstream;
  }

  /** Called by Node for a new connection; the request waits until there is one. */
  override createConnection(_: ClientRequestArgs, created?: (error: Error | null, socket: Duplex) => void): undefined {
    void reach(this.#upstream).then((socket) => {
      if (socket) created?.(null, socket);
      // With an error, Node ignores the socket.
      else created?.(new Error("workerd cannot be reached"), undefined as never);
    });
  }

  /**
   * Closes the connection after this request: workerd may do so itself if it answers before it has the whole request.
   */
  retire({ socket }: ClientRequest): void {
    if (socket) this.#retired.add(socket);
  }

  /** Called by Node to ask whether a connection may carry another request. */
  override keepSocketAlive(socket: Duplex): boolean {
    if (this.#retired.has(socket)) return false;
    super.keepSocketAlive(socket);
    return true;
  }
}
