import { randomInt } from "node:crypto";
import { createServer, type IncomingMessage } from "node:http";
import type { AddressInfo } from "node:net";
import { onTestFinished } from "vitest";
import { type WebSocket, WebSocketServer } from "ws";
import { type RunningBridge, startBridge } from "../../src/cli/bridge/bridge.ts";
import type { BridgeSettings } from "../../src/cli/bridge/settings.ts";
import { ACKNOWLEDGE_EVERY } from "../../src/core/protocols/carrier/window.ts";
import { eventually } from "./support.ts";

/** One WebSocket as the service sees it. */
export class Session {
  readonly ws: WebSocket;
  readonly request: IncomingMessage;
  readonly frames: Buffer[] = [];
  input = Buffer.alloc(0);
  hasEndOfInput = false;
  closeCode: number | undefined;
  #unacknowledged = 0;

  constructor(ws: WebSocket, request: IncomingMessage, acknowledges: boolean) {
    this.ws = ws;
    this.request = request;
    ws.on("close", (code) => {
      this.closeCode = code;
    });
    ws.on("message", (data, isBinary) => {
      if (!isBinary) throw new Error("the bridge sends binary frames only");
      const bytes = data as Buffer;
      this.frames.push(bytes);
      this.input = Buffer.concat([this.input, bytes]);
      if (bytes.length === 0) this.hasEndOfInput = true;
      this.#unacknowledged += bytes.length;
      if (acknowledges && this.#unacknowledged >= ACKNOWLEDGE_EVERY) this.acknowledge();
    });
  }

  acknowledge(): void {
    const frame = Buffer.alloc(4);
    frame.writeUInt32BE(this.#unacknowledged);
    this.#unacknowledged = 0;
    this.ws.send(frame);
  }
}

export interface Service {
  readonly url: URL;
  readonly sessions: Session[];
  /** The only session, once it is there. */
  session(): Promise<Session>;
}

export interface ServiceOptions {
  readonly acknowledges?: boolean;
  /** Lets upgrades through, one by one. */
  readonly gate?: (request: IncomingMessage) => Promise<boolean>;
}

/** A stand-in for the service: a plain WebSocket server. */
export async function startService({ acknowledges = true, gate }: ServiceOptions = {}): Promise<Service> {
  const http = createServer();
  const sessions: Session[] = [];
  const verifyClient = (info: { req: IncomingMessage }, decide: (ok: boolean, code?: number) => void) => {
    void (gate?.(info.req) ?? Promise.resolve(true)).then((isWelcome) => decide(isWelcome, 503));
  };
  const webSockets = new WebSocketServer({ server: http, verifyClient });
  webSockets.on("connection", (ws, request) => sessions.push(new Session(ws, request, acknowledges)));
  await new Promise<void>((resolve) => http.listen(0, "127.0.0.1", resolve));
  onTestFinished(() => {
    for (const { ws } of sessions) ws.terminate();
    http.closeAllConnections();
    http.close();
  });
  const url = new URL(`ws://127.0.0.1:${(http.address() as AddressInfo).port}/v1/ws`);
  return { url, sessions, session: () => eventually("a session", () => sessions[0]) };
}

export interface TestBridge extends RunningBridge {
  readonly log: string[];
}

/** A bridge to the service on a free port. */
export async function startTestBridge(to: URL, settings: Partial<BridgeSettings> = {}): Promise<TestBridge> {
  const log: string[] = [];
  const running = await startBridge(
    {
      listen: { host: "127.0.0.1", port: 0 },
      to,
      protocol: "dflockd",
      tls: undefined,
      expectsProxyHeader: false,
      secret: undefined,
      writeTimeoutMs: 5_000,
      ...settings,
    },
    (line) => log.push(line),
  );
  onTestFinished(() => running.stop());
  return Object.assign(running, { log });
}

/** Printable bytes, so that they survive text frames. */
export function randomText(length: number): Buffer {
  return Buffer.from(Uint8Array.from({ length }, () => 33 + randomInt(94)));
}

/** Cuts bytes into pieces of random sizes. */
export function* randomPieces(bytes: Buffer, longest: number): Generator<Buffer> {
  for (let at = 0; at < bytes.length; ) {
    const length = 1 + randomInt(longest);
    yield bytes.subarray(at, at + length);
    at += length;
  }
}

/** Waits until a number has stopped changing. */
export async function settled(value: () => number): Promise<number> {
  let last = value();
  let since = Date.now();
  await eventually("a value at rest", () => {
    if (value() !== last) {
      last = value();
      since = Date.now();
    }
    return Date.now() - since > 400;
  });
  return last;
}
