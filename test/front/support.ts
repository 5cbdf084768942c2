/** A front door with a stand-in for workerd behind it, and clients that send exact bytes. */
import { once } from "node:events";
import { createServer, type RequestListener, type Server } from "node:http";
import { type AddressInfo, connect, type Socket } from "node:net";
import { onTestFinished, vi } from "vitest";
import { type DoorOptions, FrontDoor } from "../../src/front/door.ts";

export const HOST = "127.0.0.1";

export interface Behind {
  readonly server: Server;
  /** Every connection that was opened to it. */
  readonly connections: readonly Socket[];
  readonly listen: { readonly host: string; readonly port: number };
}

/** Stands in for workerd. */
export async function startBehind(
  answer: RequestListener = (_, reply) => reply.end("well"),
  port = 0,
): Promise<Behind> {
  const connections: Socket[] = [];
  const server = createServer({ keepAliveTimeout: 60_000, maxHeaderSize: 131_072 }, answer);
  server.on("connection", (socket: Socket) => connections.push(socket.on("error", () => {})));
  await once(server.listen(port, HOST), "listening");
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
    for (const socket of connections) socket.destroy();
  });
  return { server, connections, listen: { host: HOST, port: (server.address() as AddressInfo).port } };
}

/** Opens a front door on free ports. */
export async function openDoor(options: Partial<DoorOptions> & Pick<DoorOptions, "upstream">): Promise<FrontDoor> {
  const door = await FrontDoor.open({
    tcp: { host: HOST, port: 0 },
    http: { host: HOST, port: 0 },
    tls: undefined,
    caps: { sockets: 100, clients: 0, clientsPerAddress: 0, httpPerAddress: 0 },
    writeTimeoutMs: 1_000,
    readTimeoutMs: 1_000,
    ownSecret: "secret",
    bridgeSecret: undefined,
    clientIpHeader: "X-Holdfast-Peer",
    log: () => {},
    ...options,
  });
  onTestFinished(() => {
    door.stopListening();
    door.cut();
  });
  return door;
}

export interface RawClient {
  readonly socket: Socket;
  heard: string;
}

/** Sends exact bytes, and keeps all that it hears. */
export function dial(port: number, words: string | Buffer = "", host = HOST): RawClient {
  const socket = connect({ port, host: HOST, localAddress: host }).on("error", () => {});
  onTestFinished(() => void socket.destroy());
  const client: RawClient = { socket, heard: "" };
  socket.setEncoding("latin1").on("data", (text: string) => {
    client.heard += text;
  });
  if (words.length > 0) socket.write(words);
  return client;
}

export const eventually = (check: () => void, timeout = 4_000) => vi.waitFor(check, { timeout, interval: 10 });

export const statusesOf = ({ heard }: RawClient) =>
  [...heard.matchAll(/HTTP\/1\.1 ([0-9]{3})/g)].map(([, status]) => Number(status));
