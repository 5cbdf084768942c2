/** Raw clients of the wire protocol: no retries, no parsing beyond lines, every surprise is an error. */
import { connect, type Socket } from "node:net";
import { WebSocket } from "ws";
import { type Arrival, Inbox } from "./inbox.ts";

/** Guards against hanging; it promises nothing. A server that just started on a busy machine takes seconds. */
export const DEFAULT_DEADLINE_MS = 20_000;

export type Transport = "tcp" | "ws";
export const TRANSPORTS: readonly Transport[] = ["tcp", "ws"];
export interface Ports {
  readonly tcpPort: number;
  readonly httpPort: number;
}

/** One connection, whatever carries it. Lines are latin1 text (one character per byte), LF included. */
export abstract class WireClient {
  protected readonly inbox = new Inbox();
  private sentAt = Number.NaN;

  /** Sends in one write. Over WebSocket: one frame, text unless `binary` is asked for or the bytes are not UTF-8. */
  send(bytes: string | Uint8Array, options: { readonly binary?: boolean } = {}): void {
    this.sentAt = performance.now();
    this.write(bytes, options);
  }
  protected abstract write(bytes: string | Uint8Array, options: { readonly binary?: boolean }): void;
  /** Ends the sending side; replies may still come. */
  abstract halfclose(): void;
  /** Closes properly, as a client that leaves. */
  abstract close(): void;
  /** Drops the connection without a word, as a client that crashed. */
  abstract destroy(): void;
  /** Stops reading from the socket, so that the server feels back-pressure; `resume` goes on. */
  abstract pause(): void;
  abstract resume(): void;

  /** The next line; fails when none comes in time or the connection ends. */
  async next(deadlineMs = DEFAULT_DEADLINE_MS): Promise<string> {
    const arrival = await this.inbox.take(deadlineMs);
    if (arrival?.kind === "line") return arrival.line;
    throw new Error(`expected a line, got ${describeArrival(arrival, deadlineMs)}`);
  }

  /** Nothing arrives for `ms` and the connection stays open. */
  async silence(ms: number): Promise<void> {
    await this.silenceUntil(performance.now() + ms);
  }

  /** The same until a time of `performance.now()`. */
  async silenceUntil(time: number): Promise<void> {
    const arrival = await this.inbox.takeBefore(time);
    if (arrival) throw new Error(`expected silence, got ${describeArrival(arrival, 0)}`);
  }

  /**
   * The server closes in time and says nothing before. "Not sooner than" is measured from the last `send`: nothing that the
   * server does in response starts before it, so a busy machine only makes the time longer. From the arrival of a line it
   * would be shorter by as much as that line was read late.
   */
  async closed(deadlineMs = DEFAULT_DEADLINE_MS): Promise<{ code: number | undefined; msAfterLastSend: number }> {
    const arrival = await this.inbox.take(deadlineMs);
    if (arrival?.kind !== "end") throw new Error(`expected a close, got ${describeArrival(arrival, deadlineMs)}`);
    return { code: arrival.code, msAfterLastSend: arrival.at - this.sentAt };
  }
}

function describeArrival(arrival: Arrival | undefined, waitedMs: number): string {
  if (!arrival) return `nothing for ${waitedMs} ms`;
  if (arrival.kind === "line") return `line ${JSON.stringify(arrival.line)}`;
  if (arrival.kind === "violation") return `a violation of the protocol: ${arrival.problem}`;
  return `a close${arrival.code === undefined ? "" : ` with code ${arrival.code}`}`;
}

export class TcpClient extends WireClient {
  private readonly socket: Socket;
  private partial = "";

  private constructor(socket: Socket) {
    super();
    this.socket = socket;
    socket.setNoDelay(true);
    socket.on("data", (chunk: Buffer) => this.read(chunk));
    socket.on("end", () => {
      this.end();
      socket.end();
    });
    socket.on("close", () => this.end());
    socket.on("error", () => this.end());
  }

  static open(port: number, options: { readonly localAddress?: string } = {}): Promise<TcpClient> {
    return new Promise((resolve, reject) => {
      const socket = connect({ port, host: "127.0.0.1", allowHalfOpen: true, ...options });
      socket.once("error", reject);
      socket.once("connect", () => {
        socket.off("error", reject);
        resolve(new TcpClient(socket));
      });
    });
  }

  protected write(bytes: string | Uint8Array): void {
    this.socket.write(bytes);
  }
  halfclose(): void {
    this.socket.end();
  }
  close(): void {
    this.socket.end();
    this.socket.destroySoon();
  }
  destroy(): void {
    this.socket.resetAndDestroy();
  }
  pause(): void {
    this.socket.pause();
  }
  resume(): void {
    this.socket.resume();
  }

  private read(chunk: Buffer): void {
    const lines = (this.partial + chunk.toString("latin1")).split("\n");
    this.partial = lines.pop() as string;
    for (const line of lines) this.inbox.add({ kind: "line", line: `${line}\n` });
  }

  private end(): void {
    if (this.partial !== "") this.inbox.add({ kind: "violation", problem: `ended within the line ${this.partial}` });
    this.partial = "";
    this.inbox.add({ kind: "end", code: undefined });
  }
}

/** The server answered the upgrade with a plain HTTP reply. */
export class UpgradeRefused extends Error {
  readonly status: number;
  readonly body: string;
  constructor(status: number, body: string) {
    super(`upgrade refused with ${status} ${body}`);
    this.name = "UpgradeRefused";
    this.status = status;
    this.body = body;
  }
}

export interface WebSocketOptions {
  readonly headers?: Record<string, string>;
  /** Put behind the address, with its question mark. */
  readonly query?: string;
  readonly protocols?: string[];
}

export class WsClient extends WireClient {
  readonly socket: WebSocket;

  private constructor(socket: WebSocket) {
    super();
    this.socket = socket;
    socket.on("message", (data: Buffer, isBinary: boolean) => this.read(data, isBinary));
    socket.on("close", (code) => this.inbox.add({ kind: "end", code }));
    socket.on("error", (error) => this.inbox.add({ kind: "violation", problem: error.message }));
  }

  static open(port: number, options: WebSocketOptions = {}): Promise<WsClient> {
    return new Promise((resolve, reject) => {
      const socket = new WebSocket(`ws://127.0.0.1:${port}/v1/ws${options.query ?? ""}`, options.protocols ?? [], {
        headers: options.headers ?? {},
        perMessageDeflate: false,
      });
      // Listens from the start: a server may say `error_auth` in the same packet as its 101.
      const client = new WsClient(socket);
      socket.once("open", () => resolve(client));
      socket.once("error", reject);
      socket.once("unexpected-response", async (_request, response) => {
        const chunks: Buffer[] = [];
        for await (const chunk of response) chunks.push(chunk);
        reject(new UpgradeRefused(response.statusCode ?? 0, Buffer.concat(chunks).toString()));
      });
    });
  }

  protected write(bytes: string | Uint8Array, options: { readonly binary?: boolean }): void {
    const buffer = Buffer.from(bytes);
    this.socket.send(buffer, { binary: options.binary ?? !isUtf8(buffer) });
  }
  halfclose(): void {
    this.socket.send(Buffer.alloc(0), { binary: true });
  }
  close(code?: number): void {
    this.socket.close(code);
  }
  destroy(): void {
    this.socket.terminate();
  }
  pause(): void {
    this.socket.pause();
  }
  resume(): void {
    this.socket.resume();
  }

  private read(data: Buffer, isBinary: boolean): void {
    const line = data.toString("latin1");
    if (isBinary) this.inbox.add({ kind: "violation", problem: `binary frame ${JSON.stringify(line)}` });
    else if (line.indexOf("\n") !== line.length - 1 || line === "") {
      this.inbox.add({ kind: "violation", problem: `frame that is not exactly one line: ${JSON.stringify(line)}` });
    } else this.inbox.add({ kind: "line", line });
  }
}

function isUtf8(bytes: Uint8Array): boolean {
  try {
    new TextDecoder("utf-8", { fatal: true }).decode(bytes);
    return true;
  } catch {
    return false;
  }
}

export function openClient(transport: Transport, ports: Ports): Promise<WireClient> {
  return transport === "tcp" ? TcpClient.open(ports.tcpPort) : WsClient.open(ports.httpPort);
}

/** Sends one request and returns its reply without the LF. */
export async function ask(client: WireClient, command: string, key: string, arg: string): Promise<string> {
  client.send(`${command}\n${key}\n${arg}\n`);
  return (await client.next()).slice(0, -1);
}

/** Acquires and returns the token; fails on any other reply. */
export async function lock(client: WireClient, key: string, arg = "0"): Promise<string> {
  return tokenOf(await ask(client, "l", key, arg));
}

/** The token of a grant, tagged or not; fails on any other reply. */
export function tokenOf(reply: string): string {
  const match = /^(?:@\S+ )?(?:ok|acquired) ([0-9a-f]{32}) [0-9]+\n?$/.exec(reply);
  if (!match) throw new Error(`expected a grant, got ${JSON.stringify(reply)}`);
  return match[1] as string;
}

export const fenceOf = (token: string): string => token.slice(0, 16);

/**
 * Starts a tagged acquire that is expected to wait, and resolves once it has joined the queue: a session's requests on
 * one key reach it in order, so the answer to the release sent behind it proves that.
 */
export async function joinQueue(client: WireClient, key: string, arg: string): Promise<void> {
  client.send(`@wait l\n${key}\n${arg}\n@joined r\n${key}\nnobody\n`);
  const reply = await client.next();
  if (reply !== "@joined error\n") throw new Error(`expected to wait for ${key}, got ${JSON.stringify(reply)}`);
}

/** Takes the keys `held-0` and so on for five minutes, all at once. */
export async function holdKeys(client: WireClient, count: number): Promise<void> {
  for (let index = 0; index < count; index += 1) client.send(`@${index} l\nheld-${index}\n0 300\n`);
  for (let index = 0; index < count; index += 1) tokenOf(await client.next(20_000));
}
