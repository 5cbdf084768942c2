import { type Clock, systemClock } from "./clock.ts";
import { type Binding, isBinding, socketsOf } from "./connection/binding.ts";
import type { ChannelOptions } from "./connection/channel.ts";
import { addressIn, type SocketConstructor } from "./connection/socket.ts";
import type { RequestOptions } from "./locks/acquire.ts";
import { Locks } from "./locks.ts";
import { checkOptions, shownAs } from "./options.ts";

/** How to connect. */
export interface ConnectOptions {
  /** The token or a ticket, or a function that returns one and is called before every connection. */
  readonly token?: ChannelOptions["token"];
  /** Name shown to others: 1 to 64 printable characters. */
  readonly label?: string | undefined;
  /** Default for the option `sticky` of `request`. */
  readonly sticky?: RequestOptions["sticky"];
  /** The constructor to use where there is no global `WebSocket`, as in Node 20: for example that of the package `ws`. */
  readonly WebSocket?: SocketConstructor | undefined;
  /** For tests. */
  readonly clock?: Clock | undefined;
}

/**
 * A client of the service at this address: `https`, `http`, `wss` or `ws`, with or without the path. In a Worker with a
 * service binding, the binding stands for the address: `connect(env.LOCKS)`. It connects at once, and
 * reconnects whenever the connection is lost, until it is closed. Throws a `TypeError` if the address or an option is
 * invalid, or if there is no `WebSocket`; never because of the network: see `ready`.
 *
 * ```ts
 * const locks = connect("http://127.0.0.1:6389", { label: "worker-7" });
 * await locks.request("deploy", async (lock) => {
 *   await deploy({ fence: lock.fence, signal: lock.signal });
 * });
 * await locks.close();
 * ```
 */
export function connect(url: string | URL | Binding, options: ConnectOptions = {}): Locks {
  const binding = isBinding(url) ? url : undefined;
  const address = addressIn(binding ? "http://holdfast" : url);
  // Show a bare host and port, or the scheme only: the rest may contain a ticket or a password.
  const shown = typeof url === "string" ? url.match(/^[\w.-]+:\d+$|^\w*:|/)?.[0] : url;
  if (!address) throw new TypeError(`connect: url must begin with http, https, ws or wss, not ${shownAs(shown)}`);
  checkOptions("connect", options, "WebSocket clock label sticky token");
  const { token, label, sticky, clock = systemClock } = options;
  const global = globalThis as { WebSocket?: SocketConstructor };
  const WebSocket = binding ? socketsOf(binding) : (options.WebSocket ?? global.WebSocket);
  if (!WebSocket) throw new TypeError('connect: option "WebSocket" is needed, as of the package ws');
  if (label) address.searchParams.set("label", label);
  return new Locks({ url: address.href, token, WebSocket, clock }, sticky);
}
