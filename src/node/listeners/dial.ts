import { connect } from "node:net";
import { WebSocket } from "ws";
import type { Carrier, DialEvents, DialTarget } from "../../core/group/dial.ts";
import { RELAY_SUBPROTOCOL } from "../../core/protocols/godistlock/relay.ts";

/** How long a deployment may take to close its side after we have closed ours. */
const LINGER_MS = 1_000;
const KEEP_ALIVE_MS = 30_000;
const MAX_MESSAGE_BYTES = 1_048_576;
const DONE = 1000;

/** Opens a connection to another deployment. */
export function dial(target: DialTarget, events: DialEvents): Carrier {
  return target.url.startsWith("tcp:") ? dialTcp(target, events) : dialWebSocket(target, events);
}

function dialTcp({ url }: DialTarget, { opened, received, closed }: DialEvents): Carrier {
  const { hostname, port } = new URL(url.replace(/^tcp/, "http"));
  const socket = connect({
    host: hostname.replace(/^\[|\]$/g, ""),
    port: Number(port || 80),
    noDelay: true,
    keepAlive: true,
    keepAliveInitialDelay: KEEP_ALIVE_MS,
  });
  socket
    .on("connect", opened)
    .on("data", received)
    .on("close", closed)
    .on("error", () => {});
  return {
    send: together((text) => socket.write(text)),
    close: () => {
      socket.end();
      setTimeout(() => socket.destroy(), LINGER_MS).unref();
    },
  };
}

function dialWebSocket({ url, token }: DialTarget, { opened, received, closed }: DialEvents): Carrier {
  const socket = new WebSocket(url, RELAY_SUBPROTOCOL, {
    headers: { Authorization: `Bearer ${token}` },
    perMessageDeflate: false,
    maxPayload: MAX_MESSAGE_BYTES,
  });
  socket
    .on("open", opened)
    .on("message", (data: Buffer) => received(data))
    .on("close", closed)
    .on("error", () => {});
  return {
    send: together((text) => {
      if (socket.readyState === WebSocket.OPEN) socket.send(text);
    }),
    close: () => {
      socket.close(DONE);
      setTimeout(() => socket.terminate(), LINGER_MS).unref();
    },
  };
}

/** Writes everything that is sent in one step at once. */
function together(write: (text: string) => void): (text: string) => void {
  let unwritten = "";
  return (text) => {
    if (unwritten === "")
      queueMicrotask(() => {
        const all = unwritten;
        unwritten = "";
        write(all);
      });
    unwritten += text;
  };
}
