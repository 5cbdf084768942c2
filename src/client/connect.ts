import type { ChannelOptions } from "./channel.ts";
import { type Clock, systemClock } from "./clock.ts";
import { Locks } from "./locks.ts";
import { addressOf, type SocketConstructor } from "./socket.ts";

export interface ConnectOptions {
  /** The token, or a ticket; or what gives one, asked before every connection. */
  readonly token?: ChannelOptions["token"];
  /** How others see this client beside what it holds: 1 to 64 printable characters. */
  readonly label?: string;
  /** Where there is no global `WebSocket`, as in Node 20. */
  readonly WebSocket?: SocketConstructor;
  /** For tests. */
  readonly clock?: Clock;
}

/**
 * A client of the service at this address: `https`, `http`, `wss` or `ws`, with or without the path. It connects at once, and
 * again whenever the connection is lost, until it is closed.
 *
 * ```ts
 * const locks = connect("http://127.0.0.1:6389", { label: "worker-7" });
 * await locks.request("deploy", async (lock) => {
 *   await deploy({ fence: lock.fence, signal: lock.signal });
 * });
 * await locks.close();
 * ```
 */
export function connect(url: string | URL, options: ConnectOptions = {}): Locks {
  const { token, label, clock = systemClock } = options;
  const WebSocket = options.WebSocket ?? (globalThis as { WebSocket?: SocketConstructor }).WebSocket;
  if (!WebSocket) throw new TypeError("no WebSocket here: give one, as that of ws");
  return new Locks({ url: addressOf(url, label), token, WebSocket, clock });
}
