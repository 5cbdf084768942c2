/** Unary gRPC calls, one at a time, on HTTP/2 written by hand, so that etcd's clients cost about what the others cost. */
import { connect, type Socket } from "node:net";
import type { Address } from "./channel.ts";

const FRAME = { data: 0, headers: 1, reset: 3, settings: 4, ping: 6, goAway: 7, windowUpdate: 8 } as const;
const END_STREAM = 1;
const ACK = 1;
const END_HEADERS = 4;
const HEAD_BYTES = 9;
const GRPC_PREFIX_BYTES = 5;
const PREFACE = Buffer.from("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
/** More than a benchmark receives, so that no window has to be opened again. */
const WINDOW = 2 ** 31 - 1 - 65_535;

export class GrpcConnection {
  readonly #socket: Socket;
  readonly #authority: string;
  readonly #heads = new Map<string, Buffer>();
  #received: Buffer = Buffer.alloc(0);
  #stream = -1;
  #reply: Buffer = Buffer.alloc(0);
  #answered: (reply: Buffer) => void = () => {};
  #isClosing = false;

  private constructor(socket: Socket, authority: string) {
    this.#socket = socket;
    this.#authority = authority;
    socket.on("data", (bytes) => this.#take(bytes));
    socket.on("error", (error) => this.#fail(error.message));
    socket.on("close", () => this.#fail("the server closed the connection"));
    const window = Buffer.alloc(4);
    window.writeUInt32BE(WINDOW);
    socket.write(Buffer.concat([PREFACE, frame(FRAME.settings, 0, 0), frame(FRAME.windowUpdate, 0, 0, window)]));
  }

  static open({ host, port }: Address): Promise<GrpcConnection> {
    return new Promise((resolve, reject) => {
      const socket = connect({ host, port, noDelay: true });
      socket.once("error", reject);
      socket.once("connect", () => resolve(new GrpcConnection(socket, `${host}:${port}`)));
    });
  }

  call(method: string, message: Buffer, answered: (reply: Buffer) => void): void {
    this.#answered = answered;
    this.#stream += 2;
    const prefix = Buffer.alloc(GRPC_PREFIX_BYTES);
    prefix.writeUInt32BE(message.length, 1);
    this.#socket.write(
      Buffer.concat([
        frame(FRAME.headers, END_HEADERS, this.#stream, this.#headersOf(method)),
        frame(FRAME.data, END_STREAM, this.#stream, Buffer.concat([prefix, message])),
      ]),
    );
  }

  close(): void {
    this.#isClosing = true;
    this.#socket.end();
  }

  /** Headers by the static table of HPACK where it has them, as plain text where it has not. */
  #headersOf(method: string): Buffer {
    const known = this.#heads.get(method);
    if (known) return known;
    const text = (words: string) => String.fromCharCode(words.length) + words;
    const [methodIsPost, schemeIsHttp, path, authority, contentType, newName] = [0x83, 0x86, 0x04, 0x01, 0x0f, 0x00];
    const head = Buffer.concat([
      Buffer.from([methodIsPost, schemeIsHttp, path]),
      Buffer.from(text(`/${method}`)),
      Buffer.from([authority]),
      Buffer.from(text(this.#authority)),
      // Name 31 of the static table: 15 and 16 more.
      Buffer.from([contentType, 16]),
      Buffer.from(text("application/grpc")),
      Buffer.from([newName]),
      Buffer.from(text("te") + text("trailers")),
    ]);
    this.#heads.set(method, head);
    return head;
  }

  #take(bytes: Buffer): void {
    let rest = this.#received.length === 0 ? bytes : Buffer.concat([this.#received, bytes]);
    while (rest.length >= HEAD_BYTES) {
      const end = HEAD_BYTES + rest.readUIntBE(0, 3);
      if (rest.length < end) break;
      this.#frame(rest[3] as number, rest[4] as number, rest.subarray(HEAD_BYTES, end));
      rest = rest.subarray(end);
    }
    this.#received = rest;
  }

  #frame(type: number, flags: number, payload: Buffer): void {
    switch (type) {
      case FRAME.data:
        this.#reply = this.#reply.length === 0 ? payload : Buffer.concat([this.#reply, payload]);
        break;
      case FRAME.settings:
        if ((flags & ACK) === 0) this.#socket.write(frame(FRAME.settings, ACK, 0));
        break;
      case FRAME.ping:
        if ((flags & ACK) === 0) this.#socket.write(frame(FRAME.ping, ACK, 0, payload));
        break;
      case FRAME.reset:
      case FRAME.goAway:
        this.#fail(`etcd refused a call: ${payload.toString("latin1")}`);
    }
    const isReplyWhole = (type === FRAME.data || type === FRAME.headers) && (flags & END_STREAM) !== 0;
    if (isReplyWhole) this.#answer();
  }

  #answer(): void {
    const reply = this.#reply;
    this.#reply = Buffer.alloc(0);
    // A call that fails is answered with headers alone.
    if (reply.length < GRPC_PREFIX_BYTES) throw new Error("etcd answered a call with an error");
    this.#answered(reply.subarray(GRPC_PREFIX_BYTES));
  }

  #fail(reason: string): void {
    if (!this.#isClosing) throw new Error(reason);
  }
}

function frame(type: number, flags: number, stream: number, payload: Buffer = Buffer.alloc(0)): Buffer {
  const head = Buffer.alloc(HEAD_BYTES);
  head.writeUIntBE(payload.length, 0, 3);
  head.writeUInt8(type, 3);
  head.writeUInt8(flags, 4);
  head.writeUInt32BE(stream, 5);
  return Buffer.concat([head, payload]);
}
