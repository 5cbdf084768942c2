import type { Config } from "../../core/config/config.ts";
import { SendWindow } from "../../core/protocols/carrier/window.ts";
import { errorLine, NO_NONCE } from "../../core/protocols/godistlock/errors.ts";
import { wireReply } from "../../core/protocols/statuses.ts";
import { ALL_BUT_ADMIN } from "../../core/session/rights.ts";
import { type Env, readConfigOf } from "../env.ts";
import { openRelay } from "./relay.ts";
import { openSession } from "./session.ts";

/** Limit for unwritten replies, in characters; a client that lets more pile up is cut off. */
const MAX_UNWRITTEN = 16 * 1024 * 1024;
const CHUNK = 65_536;

/** Carries one TCP connection over a WebSocket to its session, byte for byte. The connection ends with the session. */
export async function serveTcp(socket: Socket, env: Env): Promise<void> {
  const config = readConfigOf(env);
  if (!config.ok) {
    await refuse(socket, `${wireReply("error")}\n`);
    return;
  }
  const { remoteAddress, localAddress } = await socket.opened;
  // Without an address it did not come from the TCP listener: plain workerd passes on HTTP's CONNECT as well (2026-11).
  if (remoteAddress === undefined) {
    await socket.close();
    return;
  }
  const address = remoteAddress.replace(/:\d+$/, "");
  const protocol = protocolOn(localAddress, config.config);
  if (protocol === "relay" && !config.config.relay) {
    await refuse(socket, errorLine({ word: "unknown-relay", nonce: NO_NONCE }));
    return;
  }
  const { webSocket } = await upstreamOf(env, address, protocol);
  if (webSocket) await new Carriage(socket, webSocket, config.config).run();
  else await socket.close();
}

type TcpProtocol = "dflockd" | "godistlock" | "relay";

/** The port that a client came to decides what is spoken there. */
function protocolOn(localAddress: string | undefined, { godistlockPort, relayPort }: Config): TcpProtocol {
  const port = Number(/:(\d+)$/.exec(localAddress ?? "")?.[1]);
  if (port === relayPort) return "relay";
  return port === godistlockPort ? "godistlock" : "dflockd";
}

function upstreamOf(env: Env, address: string, protocol: TcpProtocol): Promise<Response> {
  if (protocol === "relay") return openRelay(env, { isKnown: false, hasWindow: true });
  const rights = ALL_BUT_ADMIN;
  return openSession(env, { protocol, transport: "tcp", address, isAuthenticated: false, rights, hasWindow: true });
}

async function refuse(socket: Socket, line: string): Promise<void> {
  const writer = socket.writable.getWriter();
  await writer.write(new TextEncoder().encode(line));
  await writer.close();
}

class Carriage {
  readonly #socket: Socket;
  readonly #session: WebSocket;
  readonly #config: Config;
  readonly #writer: WritableStreamDefaultWriter<Uint8Array>;
  readonly #window = new SendWindow();
  readonly #encoder = new TextEncoder();
  /** Replies waiting for the previous write to finish. */
  #unwritten: string[] = [];
  #unwrittenLength = 0;
  #isWriting = false;
  #written: Promise<void> = Promise.resolve();
  #isOver = false;
  #wake: () => void = () => {};

  constructor(socket: Socket, session: WebSocket, config: Config) {
    this.#socket = socket;
    this.#session = session;
    this.#config = config;
    this.#writer = socket.writable.getWriter();
  }

  async run(): Promise<void> {
    const closed = new Promise<void>((resolve) => {
      this.#session.addEventListener("close", () => resolve());
      this.#session.addEventListener("error", () => resolve());
    });
    this.#session.addEventListener("message", ({ data }) => this.#fromSession(data));
    this.#session.binaryType = "arraybuffer";
    this.#session.accept();
    const reading = this.#readAll();
    await closed;
    this.#isOver = true;
    this.#wake();
    await this.#written;
    await this.#socket.close().catch(() => {});
    await reading;
  }

  async #readAll(): Promise<void> {
    const reader = this.#socket.readable.getReader();
    try {
      for (;;) {
        await this.#windowOpen();
        const { value, done } = await reader.read();
        if (this.#isOver) return;
        if (done) break;
        for (let at = 0; at < value.length; at += CHUNK) this.#toSession(value.subarray(at, at + CHUNK));
      }
      this.#session.send(new Uint8Array(0));
    } catch {
      // The client has reset the connection.
      this.#hangUp();
    }
  }

  #toSession(bytes: Uint8Array): void {
    this.#session.send(bytes);
    this.#window.sent(bytes.length);
  }

  async #windowOpen(): Promise<void> {
    while (!this.#window.isOpen && !this.#isOver) {
      await Promise.race([
        scheduler.wait(this.#window.msUntilForgiven()),
        new Promise<void>((resolve) => {
          this.#wake = resolve;
        }),
      ]);
    }
  }

  #fromSession(data: string | ArrayBuffer): void {
    if (typeof data !== "string") {
      this.#window.acknowledge(new Uint8Array(data));
      this.#wake();
      return;
    }
    this.#unwritten.push(data);
    this.#unwrittenLength += data.length;
    if (this.#unwrittenLength > MAX_UNWRITTEN) this.#hangUp();
    else if (!this.#isWriting) this.#written = this.#writeAll();
  }

  /** Writes everything pending at once, repeatedly, or hangs up on a client that does not take it in time. */
  async #writeAll(): Promise<void> {
    const { writeTimeoutMs } = this.#config;
    this.#isWriting = true;
    try {
      while (this.#unwritten.length > 0) {
        const bytes = this.#encoder.encode(this.#unwritten.join(""));
        this.#unwritten = [];
        this.#unwrittenLength = 0;
        // In pieces, so that a client that reads slowly is not mistaken for one that does not read.
        for (let at = 0; at < bytes.length; at += CHUNK) {
          const timer = writeTimeoutMs > 0 ? setTimeout(() => this.#hangUp(), writeTimeoutMs) : undefined;
          await this.#writer.write(bytes.subarray(at, at + CHUNK));
          if (timer !== undefined) clearTimeout(timer);
        }
      }
    } catch {
      this.#hangUp();
    }
    this.#isWriting = false;
  }

  /** Ends the session and drops the connection, discarding unwritten replies. */
  #hangUp(): void {
    if (!this.#isOver) {
      this.#isOver = true;
      this.#wake();
      this.#session.close(1000);
    }
    this.#writer.abort().catch(() => {});
    this.#socket.close().catch(() => {});
  }
}
