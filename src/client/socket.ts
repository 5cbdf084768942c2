/** The part of a WebSocket that the client needs. */
export interface Socket {
  send(text: string): void;
  close(code?: number): void;
  addEventListener(type: "open" | "error", listener: (event: unknown) => void): void;
  addEventListener(type: "message", listener: (event: { readonly data: unknown }) => void): void;
  addEventListener(type: "close", listener: (event: { readonly code: number }) => void): void;
}

export type SocketConstructor = new (url: string, protocols: string[]) => Socket;

/** Close codes of the protocol, and who sends them. */
export const CLOSE = {
  /** The client leaves, and its session with it. */
  done: 1000,
  /** The server: the session that was asked for is not there any more. */
  gone: 4410,
  /** The client gives this connection up and comes back on another. */
  parted: 4412,
} as const;

const PATH = "/v1/ws";
/** As the service wants it: browsers do not tell why an upgrade was refused. */
const LABEL = /^[^\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]{1,64}$/u;

/** Where the WebSocket is, from what people write for it: any of http, https, ws, wss, with or without the path. */
export function addressOf(url: string | URL, label: string | undefined): string {
  const page = (globalThis as { location?: { href: string } }).location?.href;
  const address = new URL(url, page);
  address.protocol = address.protocol.replace(/^http/, "ws");
  if (!/^wss?:$/.test(address.protocol)) throw new TypeError(`not an address: ${url}`);
  address.pathname = address.pathname.replace(/(\/v1\/ws)?\/*$/, PATH);
  address.hash = "";
  if (label !== undefined) {
    if (!LABEL.test(label)) throw new TypeError(`not a label: ${JSON.stringify(label)}`);
    address.searchParams.set("label", label);
  }
  return address.href;
}
