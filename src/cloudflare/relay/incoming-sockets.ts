import { sameSecret } from "../../core/auth/secrets.ts";
import type { Question } from "../../core/group/effects.ts";
import {
  AUTH_REQUIRED,
  type IncomingAction,
  IncomingRelay,
  type IncomingState,
  type RelayIdentity,
} from "../../core/group/incoming.ts";
import { ReceiveWindow } from "../../core/protocols/carrier/window.ts";
import { CLOSE_CODES, errorLine, type LineFault, NO_NONCE } from "../../core/protocols/godistlock/errors.ts";
import { type LineEvent, LineReader } from "../../core/protocols/godistlock/lines.ts";
import { formatRelayReply, type RelayReply } from "../../core/protocols/godistlock/relay.ts";
import { log } from "../../log.ts";
import { closeSocket } from "../calls/closing.ts";

/** A refusal for want of a token is followed by the close after this time. */
const REFUSAL_PAUSE_MS = 100;
const MAX_MESSAGE_BYTES = 1_048_576;
/** Lines that have been received and not yet executed. */
const MAX_BACKLOG_BYTES = 65_536;

export interface IncomingHost {
  readonly identity: RelayIdentity;
  readonly token: string;
  readonly readTimeoutMs: number;
  heard(peer: string): void;
  answer(peer: string, version: string, question: Question): Promise<RelayReply | undefined>;
}

/** What a sleep of the object must not lose. */
interface Attachment {
  readonly state: IncomingState;
  readonly partial: Uint8Array;
  readonly hasWindow: boolean;
}

const encoder = new TextEncoder();

/** One connection of another deployment: its lines are executed and answered in order, one at a time. */
export class IncomingSocket {
  readonly #socket: WebSocket;
  readonly #host: IncomingHost;
  readonly #relay: IncomingRelay;
  readonly #reader: LineReader;
  readonly #window: ReceiveWindow | undefined;
  #working: Promise<void> = Promise.resolve();
  #backlog = 0;
  #isOver = false;
  #deadline: ReturnType<typeof setTimeout> | undefined;

  private constructor(socket: WebSocket, host: IncomingHost, { state, partial, hasWindow }: Attachment) {
    this.#socket = socket;
    this.#host = host;
    this.#relay = new IncomingRelay(host.identity, state);
    this.#reader = new LineReader(partial);
    this.#window = hasWindow ? new ReceiveWindow() : undefined;
    this.#watch();
  }

  static open(socket: WebSocket, host: IncomingHost, entry: { isKnown: boolean; hasWindow: boolean }): IncomingSocket {
    const state: IncomingState = { phase: entry.isKnown ? "known" : "unknown" };
    const { hasWindow } = entry;
    const incoming = new IncomingSocket(socket, host, { state, partial: new Uint8Array(0), hasWindow });
    incoming.#save();
    return incoming;
  }

  /** A connection that has outlived a sleep of the object. */
  static restore(socket: WebSocket, host: IncomingHost): IncomingSocket {
    return new IncomingSocket(socket, host, socket.deserializeAttachment() as Attachment);
  }

  /** The peer at the other end of such a socket, if it has introduced itself. */
  static peerOn(socket: WebSocket): string | undefined {
    const { state } = socket.deserializeAttachment() as Attachment;
    return state.phase === "introduced" ? state.id : undefined;
  }

  get peer(): string | undefined {
    return this.#relay.peer;
  }

  received(message: string | ArrayBuffer): Promise<void> {
    if (this.#isOver || message === "") return this.#working;
    const bytes = typeof message === "string" ? encoder.encode(message) : new Uint8Array(message);
    if (bytes.length > MAX_MESSAGE_BYTES) this.#close(CLOSE_CODES["line-too-long"]);
    else if (bytes.length === 0) this.#then(async () => this.#endOfInput());
    else this.#read(bytes);
    return this.#working;
  }

  /** The connection has ended. */
  closed(): void {
    this.#isOver = true;
    clearTimeout(this.#deadline ?? null);
  }

  #read(bytes: Uint8Array): void {
    this.#backlog += bytes.length;
    if (this.#backlog > MAX_BACKLOG_BYTES && this.#relay.state.phase !== "unknown") {
      this.#close(CLOSE_CODES["line-too-long"]);
      return;
    }
    for (const event of this.#reader.read(bytes)) {
      this.#then(() => this.#execute(event));
      // The line that follows has a deadline of its own.
      if (this.#relay.state.phase !== "unknown") this.#stopWatch();
    }
    this.#then(async () => {
      this.#backlog -= bytes.length;
      const frame = this.#window?.consumed(bytes.length);
      if (frame && !this.#isOver) this.#socket.send(frame);
    });
    this.#save();
    this.#watch();
  }

  #then(step: () => Promise<void>): void {
    this.#working = this.#working.then(async () => {
      if (this.#isOver) return;
      try {
        await step();
      } catch (error) {
        log("error", "relay_request_failed", { error: String(error) });
        this.#refuse({ word: "internal", nonce: NO_NONCE });
      }
    });
  }

  async #execute(event: LineEvent): Promise<void> {
    if (event.type === "line_too_long") {
      const isKnown = this.#relay.state.phase !== "unknown";
      this.#refuse(isKnown ? { word: "line-too-long", nonce: NO_NONCE } : AUTH_REQUIRED);
      return;
    }
    let action = this.#relay.take(event.line);
    if (action.type === "authenticate") {
      const isRight = sameSecret(action.token.trim(), this.#host.token);
      action = this.#relay.authenticated(isRight, action.nonce);
    }
    if (this.#relay.peer !== undefined) this.#host.heard(this.#relay.peer);
    await this.#act(action);
    this.#save();
    this.#watch();
  }

  async #act(action: IncomingAction): Promise<void> {
    switch (action.type) {
      case "reply":
        this.#send(formatRelayReply(action.reply));
        break;
      case "ask": {
        const reply = await this.#host.answer(action.id, action.version, action.question);
        if (reply) this.#send(formatRelayReply(reply));
        break;
      }
      case "refuse":
        this.#refuse(action.fault);
        break;
      case "hang_up":
        this.#close(1000);
    }
  }

  #endOfInput(): void {
    if (this.#relay.state.phase === "unknown") this.#refuse(AUTH_REQUIRED);
    else this.#close(1000);
  }

  #refuse(fault: LineFault): void {
    this.#send(errorLine(fault));
    this.closed();
    const code = CLOSE_CODES[fault.word];
    if (fault.word === "auth-required") setTimeout(() => closeSocket(this.#socket, code), REFUSAL_PAUSE_MS);
    else closeSocket(this.#socket, code);
  }

  #close(code: number): void {
    this.closed();
    closeSocket(this.#socket, code);
  }

  #send(line: string): void {
    if (!this.#isOver) this.#socket.send(line);
  }

  /** A line, or the token, has to be complete within the read timeout. An idle connection is never cut. */
  #watch(): void {
    const isDue = !this.#isOver && (this.#relay.state.phase === "unknown" || this.#reader.isMidLine);
    if (!isDue) this.#stopWatch();
    else {
      this.#deadline ??= setTimeout(() => {
        const isKnown = this.#relay.state.phase !== "unknown";
        this.#refuse(isKnown ? { word: "read-timeout", nonce: NO_NONCE } : AUTH_REQUIRED);
      }, this.#host.readTimeoutMs);
    }
  }

  #stopWatch(): void {
    clearTimeout(this.#deadline ?? null);
    this.#deadline = undefined;
  }

  #save(): void {
    if (this.#isOver) return;
    // A line with a token may be longer than what a socket can keep; until it is complete, the object does not sleep.
    const partial = this.#reader.partial.length <= 1_024 ? this.#reader.partial : new Uint8Array(0);
    const hasWindow = this.#window !== undefined;
    this.#socket.serializeAttachment({ state: this.#relay.state, partial, hasWindow } satisfies Attachment);
  }
}
