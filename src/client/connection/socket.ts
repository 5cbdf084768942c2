/** The part of a WebSocket that the client needs. */
export interface Socket {
  /** Sends one frame. May throw when it is not open. */
  send(text: string): void;
  /** Closes it with a code for the other side. */
  close(code?: number): void;
  /** Closes it at once, without waiting for the other side. Browsers do not have it. */
  terminate?(): void;
  /** As that of an `EventTarget`. */
  addEventListener(type: "open" | "error", listener: (event: unknown) => void): void;
  addEventListener(type: "message", listener: (event: { readonly data: unknown }) => void): void;
  addEventListener(type: "close", listener: (event: { readonly code: number }) => void): void;
}

/** What makes a socket: the global `WebSocket`, or that of the package `ws`. */
export type SocketConstructor = new (url: string, protocols: string[]) => Socket;

const PATH = "/v1/ws";
/** The service's rule, checked here because browsers do not say why an upgrade was refused. */
const LABEL = /^[^\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]{1,64}$/u;

export function isLabel(text: unknown): boolean {
  return typeof text === "string" && LABEL.test(text);
}

/** The WebSocket address for an http, https, ws or wss URL, with or without the path. */
export function addressIn(url: unknown): URL | undefined {
  const page = (globalThis as { location?: { href: string } }).location?.href;
  try {
    const address = new URL(url as string | URL, page);
    address.protocol = address.protocol.replace(/^http/, "ws");
    address.pathname = address.pathname.replace(/(\/v1\/ws)?\/*$/, PATH);
    address.hash = "";
    return /^wss?:$/.test(address.protocol) ? address : undefined;
  } catch {
    return undefined;
  }
}

/** Where undici, the HTTP client in Node, keeps its dispatcher: version 6 in the first, version 7 in both. */
const DISPATCHERS = [1, 2].map((version) => Symbol.for(`undici.globalDispatcher.${version}`));

type Handler = Record<string, (...given: unknown[]) => unknown>;
interface Dispatcher {
  readonly __proto__?: Dispatcher;
  dispatch(options: unknown, handler: Handler): unknown;
}

/**
 * Opens a socket that has `terminate`, where possible. Node's own WebSocket (24.21, undici 7) waits without limit for the
 * other side's close frame, so one whose connection died silently keeps the program running. Hence the TCP socket below
 * it is recorded during the upgrade. Only sockets that are opened here are affected.
 */
export function openSocket(WebSocket: SocketConstructor, url: string, protocols: string[]): Socket {
  const world = globalThis as unknown as Record<symbol, Dispatcher>;
  let below: { destroy(): void } | undefined;
  const watched = (dispatcher: Dispatcher): Dispatcher => ({
    __proto__: dispatcher,
    dispatch(options, handler) {
      for (const upgraded of ["onUpgrade", "onRequestUpgrade"]) {
        const passOn = handler[upgraded];
        if (passOn)
          handler[upgraded] = (...given) => {
            below = given.at(-1) as typeof below;
            return passOn.apply(handler, given);
          };
      }
      return dispatcher.dispatch(options, handler);
    },
  });
  const own = DISPATCHERS.flatMap((name) => (world[name] ? [[name, world[name]] as const] : []));
  for (const [name, dispatcher] of own) world[name] = watched(dispatcher);
  try {
    const socket = new WebSocket(url, protocols);
    if (own[0]) socket.terminate ??= () => below?.destroy();
    return socket;
  } finally {
    for (const [name, dispatcher] of own) world[name] = dispatcher;
  }
}
