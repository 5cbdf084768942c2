import { connect } from "cloudflare:sockets";
import type { RelayPeer } from "../../core/config/relay-peers.ts";
import type { Question } from "../../core/group/effects.ts";
import { LineReader } from "../../core/protocols/godistlock/lines.ts";
import {
  exchangesFences,
  formatRelayRequest,
  parseRelayLine,
  RELAY_SUBPROTOCOL,
  type RelayReply,
  type RelayRequest,
} from "../../core/protocols/godistlock/relay.ts";

/** Connecting and introducing ourselves takes no longer than this. */
const OPEN_MS = 1_000;
/** An open connection keeps the object in memory and on the bill. */
const IDLE_MS = 60_000;
/** A peer that could not be reached is not tried again before. */
const RETRY_MS = 500;
const HELLO_NONCE = "hello";
const AUTH_NONCE = "auth";

type Answer = Extract<RelayReply, { type: "stat" | "ack" | "conf" }>;

export interface LinkOptions {
  readonly peer: RelayPeer;
  readonly ownId: string;
  readonly version: string;
  readonly token: string;
  heard(): void;
  answered(reply: Answer): void;
  /** What was asked and not answered will not be. */
  lost(): void;
}

interface Attempt {
  readonly opened: PromiseWithResolvers<boolean>;
  carrier?: Carrier;
  isOpen: boolean;
}

interface Carrier {
  send(text: string): void;
  close(): void;
}

/** The connection to one peer, dialled when it is needed. Questions reach the peer in the order they were asked. */
export class Link {
  readonly #options: LinkOptions;
  readonly #encoder = new TextEncoder();
  /** Undefined while the link is closed. */
  #attempt: Attempt | undefined;
  #waiting: Question[] = [];
  #hasFences = false;
  #failedAt = Number.NEGATIVE_INFINITY;
  #idle: ReturnType<typeof setTimeout> | undefined;
  /** Waits for the next line of the peer. */
  #sign: PromiseWithResolvers<boolean> | undefined;

  constructor(options: LinkOptions) {
    this.#options = options;
  }

  ask(question: Question): void {
    if (this.#attempt?.isOpen) this.#send(question);
    else {
      this.#waiting.push(question);
      void this.open();
    }
  }

  /** Resolves with true once the peer has answered the introduction, with false if it cannot be reached. */
  open(): Promise<boolean> {
    if (this.#attempt) return this.#attempt.opened.promise;
    if (Date.now() - this.#failedAt < RETRY_MS) {
      this.#drop();
      return Promise.resolve(false);
    }
    const attempt: Attempt = { opened: Promise.withResolvers<boolean>(), isOpen: false };
    this.#attempt = attempt;
    const timer = setTimeout(() => this.#close(attempt), OPEN_MS);
    void attempt.opened.promise.then(() => clearTimeout(timer));
    void this.#dial(attempt).catch(() => this.#close(attempt));
    return attempt.opened.promise;
  }

  /** Like `open`. If the connection is open already, the peer has to say something on it. */
  reach(): Promise<boolean> {
    const carrier = this.#attempt?.isOpen ? this.#attempt.carrier : undefined;
    if (!carrier) return this.open();
    if (this.#sign) return this.#sign.promise;
    const sign = Promise.withResolvers<boolean>();
    this.#sign = sign;
    const timer = setTimeout(() => this.#heardSign(false), OPEN_MS);
    void sign.promise.then(() => clearTimeout(timer));
    carrier.send(this.#hello);
    return sign.promise;
  }

  get #hello(): string {
    const { ownId, version } = this.#options;
    return formatRelayRequest({ type: "hello", id: ownId, version, nonce: HELLO_NONCE });
  }

  #heardSign(isThere: boolean): void {
    this.#sign?.resolve(isThere);
    this.#sign = undefined;
  }

  async #dial(attempt: Attempt): Promise<void> {
    const { peer, token } = this.#options;
    const isTcp = peer.url.startsWith("tcp:");
    const carrier = isTcp ? this.#dialTcp(attempt) : await this.#dialWebSocket(attempt);
    if (this.#attempt !== attempt) {
      carrier.close();
      return;
    }
    attempt.carrier = carrier;
    const auth = isTcp ? formatRelayRequest({ type: "auth", token, nonce: AUTH_NONCE }) : "";
    carrier.send(auth + this.#hello);
  }

  async #dialWebSocket(attempt: Attempt): Promise<Carrier> {
    const { peer, token } = this.#options;
    const { webSocket } = await fetch(peer.url.replace(/^ws/, "http"), {
      headers: {
        Upgrade: "websocket",
        "Sec-WebSocket-Protocol": RELAY_SUBPROTOCOL,
        Authorization: `Bearer ${token}`,
      },
    });
    if (!webSocket) throw new Error("the peer refused the WebSocket");
    const reader = new LineReader();
    webSocket.binaryType = "arraybuffer";
    webSocket.addEventListener("message", ({ data }) => {
      this.#received(attempt, reader, typeof data === "string" ? this.#encoder.encode(data) : new Uint8Array(data));
    });
    webSocket.addEventListener("close", () => this.#close(attempt));
    webSocket.addEventListener("error", () => this.#close(attempt));
    webSocket.accept();
    return { send: (text) => webSocket.send(text), close: () => webSocket.close(1000) };
  }

  #dialTcp(attempt: Attempt): Carrier {
    const { hostname, port } = new URL(this.#options.peer.url.replace(/^tcp/, "http"));
    const socket = connect({ hostname: hostname.replace(/^\[|\]$/g, ""), port: Number(port || 80) });
    const writer = socket.writable.getWriter();
    void this.#readTcp(attempt, socket.readable).finally(() => this.#close(attempt));
    return {
      send: (text) => void writer.write(this.#encoder.encode(text)).catch(() => this.#close(attempt)),
      close: () => void socket.close().catch(() => {}),
    };
  }

  async #readTcp(attempt: Attempt, readable: ReadableStream<Uint8Array>): Promise<void> {
    const reader = new LineReader();
    try {
      for await (const bytes of readable) this.#received(attempt, reader, bytes);
    } catch {
      // The connection is lost, which is all that counts here.
    }
  }

  #received(attempt: Attempt, reader: LineReader, bytes: Uint8Array): void {
    if (this.#attempt !== attempt) return;
    for (const event of reader.read(bytes)) {
      const parsed = event.type === "line" ? parseRelayLine(event.line) : undefined;
      if (!parsed?.ok || parsed.message.is !== "reply" || parsed.message.reply.type === "err") {
        this.#close(attempt);
        return;
      }
      this.#options.heard();
      this.#heardSign(true);
      const { reply } = parsed.message;
      if (reply.type === "howdy") this.#greeted(attempt, reply);
      else this.#options.answered(reply);
    }
  }

  #greeted(attempt: Attempt, reply: Extract<RelayReply, { type: "howdy" }>): void {
    if (reply.nonce !== HELLO_NONCE || attempt.isOpen) return;
    // Somebody else answers at this address, perhaps we ourselves.
    if (reply.id !== this.#options.peer.id) {
      this.#close(attempt);
      return;
    }
    this.#hasFences = exchangesFences(reply.version);
    attempt.isOpen = true;
    attempt.opened.resolve(true);
    const waiting = this.#waiting;
    this.#waiting = [];
    for (const question of waiting) this.#send(question);
    this.#restartIdle();
  }

  #send(question: Question): void {
    this.#restartIdle();
    this.#attempt?.carrier?.send(formatRelayRequest(this.#hasFences ? question : withoutFence(question)));
  }

  #restartIdle(): void {
    clearTimeout(this.#idle ?? null);
    const attempt = this.#attempt;
    if (attempt) this.#idle = setTimeout(() => this.#close(attempt), IDLE_MS);
  }

  #close(attempt: Attempt): void {
    if (this.#attempt !== attempt) return;
    this.#attempt = undefined;
    clearTimeout(this.#idle ?? null);
    try {
      attempt.carrier?.close();
    } catch {
      // Closed already.
    }
    if (!attempt.isOpen) this.#failedAt = Date.now();
    attempt.opened.resolve(false);
    this.#heardSign(false);
    this.#drop();
  }

  #drop(): void {
    this.#waiting = [];
    this.#options.lost();
  }
}

function withoutFence(question: Question): RelayRequest {
  if (question.type !== "comm") return question;
  const { fence: _, ...plain } = question;
  return plain;
}
