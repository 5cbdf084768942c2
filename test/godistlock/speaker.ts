/** Connections of a test: lines in, lines out, over TCP or WebSocket. */
import { connect, createServer, type Server, type Socket } from "node:net";
import { WebSocket, WebSocketServer } from "ws";
import { Inbox } from "../support/inbox.ts";

export type Transport = "tcp" | "ws";

export interface Speaker {
  readonly inbox: Inbox;
  send(bytes: Uint8Array): void;
  endInput(): void;
  close(): void;
}

export interface Place {
  readonly port: number;
  /** Undefined for TCP. */
  readonly path?: string;
  readonly subprotocol?: string;
}

export function speakTo(place: Place): Promise<Speaker> {
  return place.path === undefined ? overTcp(place.port) : overWebSocket(place);
}

function overTcp(port: number): Promise<Speaker> {
  return new Promise((resolve, reject) => {
    const socket = connect({ port, host: "127.0.0.1", allowHalfOpen: true });
    socket.once("error", reject);
    socket.once("connect", () => resolve(tcpSpeaker(socket)));
  });
}

function tcpSpeaker(socket: Socket): Speaker {
  const inbox = new Inbox();
  const feed = lineFeed(inbox);
  socket.setNoDelay(true);
  socket.on("data", feed);
  socket.on("error", () => {});
  socket.on("end", () => inbox.add({ kind: "end", code: undefined }));
  socket.on("close", () => inbox.add({ kind: "end", code: undefined }));
  return {
    inbox,
    send: (bytes) => void socket.write(bytes),
    endInput: () => void socket.end(),
    close: () => void socket.destroy(),
  };
}

function overWebSocket({ port, path, subprotocol }: Place): Promise<Speaker> {
  return new Promise((resolve, reject) => {
    const socket = new WebSocket(`ws://127.0.0.1:${port}${path}`, subprotocol ? [subprotocol] : []);
    const speaker = webSocketSpeaker(socket);
    socket.once("error", reject);
    socket.once("open", () => resolve(speaker));
  });
}

function webSocketSpeaker(socket: WebSocket): Speaker {
  const inbox = new Inbox();
  const feed = lineFeed(inbox);
  socket.on("message", (data) => feed(Buffer.isBuffer(data) ? data : Buffer.concat(data as Buffer[])));
  socket.on("error", () => {});
  socket.on("close", (code) => inbox.add({ kind: "end", code }));
  return {
    inbox,
    send: (bytes) => socket.send(Buffer.from(bytes).toString()),
    endInput: () => socket.send(Buffer.alloc(0)),
    close: () => socket.close(1000),
  };
}

function lineFeed(inbox: Inbox): (bytes: Buffer) => void {
  let partial = Buffer.alloc(0);
  return (bytes) => {
    partial = Buffer.concat([partial, bytes]);
    for (let end = partial.indexOf(10); end >= 0; end = partial.indexOf(10)) {
      inbox.add({ kind: "line", line: partial.subarray(0, end).toString() });
      partial = partial.subarray(end + 1);
    }
  };
}

/** Plays a peer: the server under test dials it. */
export interface Listening extends AsyncDisposable {
  readonly url: string;
  /** Somebody has connected, and has not been accepted. */
  readonly hasCaller: boolean;
  /** The next connection, within some seconds. */
  accept(): Promise<Speaker>;
}

export async function listenAs(transport: Transport): Promise<Listening> {
  const waiting: Speaker[] = [];
  let wake: ((speaker: Speaker) => void) | undefined;
  const arrived = (speaker: Speaker) => {
    if (wake) wake(speaker);
    else waiting.push(speaker);
    wake = undefined;
  };
  const accept = () =>
    new Promise<Speaker>((resolve, reject) => {
      const first = waiting.shift();
      if (first) resolve(first);
      else {
        wake = resolve;
        setTimeout(() => reject(new Error("the server did not dial the peer")), 6_000).unref();
      }
    });
  const listener = (url: string, server: { close(): void }): Listening => ({
    url,
    accept,
    get hasCaller() {
      return waiting.length > 0;
    },
    [Symbol.asyncDispose]: async () => server.close(),
  });
  if (transport === "tcp") {
    const server = createServer({ allowHalfOpen: true }, (socket) => arrived(tcpSpeaker(socket)));
    await listening(server);
    return listener(`tcp://127.0.0.1:${portOf(server)}`, server);
  }
  const server = new WebSocketServer({ port: 0, host: "127.0.0.1" });
  server.on("connection", (socket) => arrived(webSocketSpeaker(socket)));
  await new Promise((resolve) => server.once("listening", resolve));
  const { port } = server.address() as { port: number };
  return listener(`ws://127.0.0.1:${port}`, server);
}

function listening(server: Server): Promise<unknown> {
  return new Promise((resolve) => server.listen(0, "127.0.0.1", () => resolve(undefined)));
}

function portOf(server: Server): number {
  return (server.address() as { port: number }).port;
}
