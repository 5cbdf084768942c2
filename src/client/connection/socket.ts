/** The part of a WebSocket that the client needs. */
export interface Socket {
  /** Sends one frame. May throw when it is not open. */
  send(text: string): void;
  /** Ends it, with a code that the other side is told. */
  close(code?: number): void;
  /** Ends it at once, without waiting for the other side. The sockets of browsers have none. */
  terminate?(): void;
  /** As that of an `EventTarget`. */
  addEventListener(type: "open" | "error", listener: (event: unknown) => void): void;
  addEventListener(type: "message", listener: (event: { readonly data: unknown }) => void): void;
  addEventListener(type: "close", listener: (event: { readonly code: number }) => void): void;
}

/** What makes a socket: the global `WebSocket`, or that of the package `ws`. */
export type SocketConstructor = new (url: string, protocols: string[]) => Socket;

const PATH = "/v1/ws";
/** As the service wants it: browsers do not tell why an upgrade was refused. */
const LABEL = /^[^\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]{1,64}$/u;

export function isLabel(text: unknown): boolean {
  return typeof text === "string" && LABEL.test(text);
}

/** Where the WebSocket is, from what people write for it: any of http, https, ws, wss, with or without the path. */
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

/** Where undici, which is Node's own, keeps what carries out its requests: 6 in the first, 7 in both. */
const DISPATCHERS = [1, 2].map((version) => Symbol.for(`undici.globalDispatcher.${version}`));

type Handler = Record<string, (...given: unknown[]) => unknown>;
interface Dispatcher {
  readonly __proto__?: Dispatcher;
  dispatch(options: unknown, handler: Handler): unknown;
}

/**
 * Opens a socket, with a way to end it at once wherever one can be made. Node's own (24.21, undici 7) waits without end for the
 * other side's goodbye, and one whose connection died silently would keep the program running: so the TCP socket below it is
 * caught when it is handed over. Only what is opened here is watched, and nothing is changed about it.
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
