import { type Clock, systemClock } from "./clock.ts";
import type { ChannelOptions } from "./connection/channel.ts";
import { addressIn, type SocketConstructor } from "./connection/socket.ts";
import type { RequestOptions } from "./locks/acquire.ts";
import { Locks } from "./locks.ts";
import { checkOptions, shownAs } from "./options.ts";

/** How to connect. */
export interface ConnectOptions {
  /** The token, or a ticket; or what gives one, asked before every connection. */
  readonly token?: ChannelOptions["token"];
  /** How others see this client beside what it holds: 1 to 64 printable characters. */
  readonly label?: string | undefined;
  /** Whether `request` keeps locks after the callback, unless it is told otherwise. */
  readonly sticky?: RequestOptions["sticky"];
  /** The constructor to use where there is no global `WebSocket`, as in Node 20: that of the package `ws` will do. */
  readonly WebSocket?: SocketConstructor | undefined;
  /** For tests. */
  readonly clock?: Clock | undefined;
}

/**
 * A client of the service at this address: `https`, `http`, `wss` or `ws`, with or without the path. It connects at once, and
 * again whenever the connection is lost, until it is closed. Throws a `TypeError` if the address or an option breaks its rule, or if there is no
 * `WebSocket`; never because of the network: `ready` tells.
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
  // No more than the scheme is shown: the rest may carry a ticket or a password.
  const shown = typeof url === "string" ? url.match(/^\w*:|/)?.[0] : url;
  if (!address) throw new TypeError(`connect: url must begin with http, https, ws or wss, not ${shownAs(shown)}`);
  checkOptions("connect", options, "WebSocket clock label sticky token");
  const { token, label, sticky, clock = systemClock } = options;
  const WebSocket = options.WebSocket ?? (globalThis as { WebSocket?: SocketConstructor }).WebSocket;
  if (!WebSocket) throw new TypeError('connect: option "WebSocket" is needed, as of the package ws');
  if (label !== undefined) address.searchParams.set("label", label);
  return new Locks({ url: address.href, token, WebSocket, clock }, sticky);
}
