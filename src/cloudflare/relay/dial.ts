import { connect } from "cloudflare:sockets";
import type { Carrier, Clock, DialEvents, DialTarget } from "../../core/group/dial.ts";
import { RELAY_SUBPROTOCOL } from "../../core/protocols/godistlock/relay.ts";

const encoder = new TextEncoder();

/** The machine's time. */
export const CLOCK: Clock = {
  now: () => Date.now(),
  after: (ms, callback) => {
    const timer = setTimeout(callback, ms);
    return () => clearTimeout(timer);
  },
};

/** Opens a connection to another deployment. */
export function dial(target: DialTarget, events: DialEvents): Carrier {
  return target.url.startsWith("tcp:") ? dialTcp(target, events) : dialWebSocket(target, events);
}

function dialWebSocket({ url, token }: DialTarget, { opened, received, closed }: DialEvents): Carrier {
  let socket: WebSocket | undefined;
  let isOver = false;
  const open = async () => {
    const { webSocket } = await fetch(url.replace(/^ws/, "http"), {
      headers: {
        Upgrade: "websocket",
        "Sec-WebSocket-Protocol": RELAY_SUBPROTOCOL,
        Authorization: `Bearer ${token}`,
      },
    });
    if (!webSocket) throw new Error("the peer refused the WebSocket");
    webSocket.binaryType = "arraybuffer";
    webSocket.addEventListener("message", ({ data }) => {
      received(typeof data === "string" ? encoder.encode(data) : new Uint8Array(data));
    });
    webSocket.addEventListener("close", closed);
    webSocket.addEventListener("error", closed);
    webSocket.accept();
    socket = webSocket;
    if (isOver) webSocket.close(1000);
    else opened();
  };
  void open().catch(closed);
  return {
    send: (text) => attempt(() => socket?.send(text)),
    close: () => {
      isOver = true;
      attempt(() => socket?.close(1000));
    },
  };
}

function dialTcp({ url }: DialTarget, { opened, received, closed }: DialEvents): Carrier {
  const { hostname, port } = new URL(url.replace(/^tcp/, "http"));
  const socket = connect({ hostname: hostname.replace(/^\[|\]$/g, ""), port: Number(port || 80) });
  const writer = socket.writable.getWriter();
  const readAll = async () => {
    for await (const bytes of socket.readable) received(bytes);
  };
  // A connection that is lost has ended, which is all that counts here.
  void readAll().then(closed, closed);
  // What is written before it is open waits.
  queueMicrotask(opened);
  return {
    send: (text) => void writer.write(encoder.encode(text)).catch(closed),
    close: () => void socket.close().catch(() => {}),
  };
}

/** The socket may be closed already. */
function attempt(step: () => void): void {
  try {
    step();
  } catch {
    // Its end is told by an event.
  }
}
