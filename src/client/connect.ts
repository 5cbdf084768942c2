import type { ChannelOptions } from "./channel.ts";
import { type Clock, systemClock } from "./clock.ts";
import { Locks } from "./locks.ts";
import { checkOptions } from "./options.ts";
import { addressIn, type SocketConstructor } from "./socket.ts";

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
  const address = addressIn(url);
  // It may carry a ticket, and is not shown.
  if (!address) throw new TypeError("connect: url must be an address with http, https, ws or wss");
  checkOptions("connect", options, "WebSocket clock label token");
  const { token, label, clock = systemClock } = options;
  const WebSocket = options.WebSocket ?? (globalThis as { WebSocket?: SocketConstructor }).WebSocket;
  if (!WebSocket) throw new TypeError('connect: option "WebSocket" is needed here, as that of ws');
  if (label !== undefined) address.searchParams.set("label", label);
  return new Locks({ url: address.href, token, WebSocket, clock });
}
