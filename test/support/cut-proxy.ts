/** Stands between a client and the server, and breaks connections the ways networks do. */
import { once } from "node:events";
import { type AddressInfo, connect, createServer, type Socket } from "node:net";

export interface CutProxy extends AsyncDisposable {
  readonly port: number;
  /** How many connections have come so far. */
  readonly connections: number;
  /** Resets every connection, on both sides. New ones go through. */
  cut(): void;
  /** Resets every connection and all that come, until `heal`. */
  close(): void;
  /** Swallows everything on the connections there are, and lets nobody know. New ones go through. */
  blackHole(): void;
  /** Swallows new connections as well, until `heal`. */
  swallow(): void;
  /** As `swallow`, but the server's side is reset: only the client does not know. */
  swallowAndSever(): void;
  /** New connections go through again. What was swallowed stays swallowed. */
  heal(): void;
}

interface Pair {
  readonly client: Socket;
  readonly server: Socket;
}

export async function startCutProxy(targetPort: () => number): Promise<CutProxy> {
  const pairs = new Set<Pair>();
  const sockets = new Set<Socket>();
  let mode: "open" | "closed" | "swallowing" = "open";
  let connections = 0;
  const listener = createServer((client) => {
    connections += 1;
    client.on("error", () => {});
    if (mode === "closed") {
      client.resetAndDestroy();
      return;
    }
    const server = connect(targetPort(), "127.0.0.1");
    const pair = { client, server };
    pairs.add(pair);
    server.on("error", () => client.resetAndDestroy());
    for (const [from, to] of [
      [client, server],
      [server, client],
    ] as const) {
      from.setNoDelay(true);
      sockets.add(from);
      if (mode === "open") from.pipe(to);
      from.on("close", () => {
        sockets.delete(from);
        pairs.delete(pair);
        if (!isMuted.has(from)) to.destroy();
      });
    }
    if (mode === "swallowing") mute(pair);
  });
  /** Sockets whose end is nobody's business any more. */
  const isMuted = new WeakSet<Socket>();
  const mute = (pair: Pair) => {
    for (const socket of [pair.client, pair.server]) {
      socket.unpipe();
      socket.resume();
      isMuted.add(socket);
    }
    pairs.delete(pair);
  };
  const reset = () => {
    for (const { client, server } of pairs) {
      client.resetAndDestroy();
      server.resetAndDestroy();
    }
  };
  listener.listen(0, "127.0.0.1");
  await once(listener, "listening");
  return {
    port: (listener.address() as AddressInfo).port,
    get connections() {
      return connections;
    },
    cut: reset,
    close() {
      mode = "closed";
      reset();
    },
    blackHole() {
      for (const pair of pairs) mute(pair);
    },
    swallowAndSever() {
      mode = "swallowing";
      for (const pair of pairs) {
        mute(pair);
        pair.server.resetAndDestroy();
      }
    },
    swallow() {
      mode = "swallowing";
      for (const pair of pairs) mute(pair);
    },
    heal() {
      mode = "open";
    },
    async [Symbol.asyncDispose]() {
      for (const socket of sockets) socket.destroy();
      listener.close();
      await once(listener, "close");
    },
  };
}
