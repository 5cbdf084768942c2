import { sameSecret } from "../auth/secrets.ts";
import { ReceiveWindow } from "../protocols/carrier/window.ts";
import { CLOSE_CODES, errorLine, type LineFault, NO_NONCE } from "../protocols/godistlock/errors.ts";
import { type LineEvent, LineReader } from "../protocols/godistlock/lines.ts";
import { formatRelayReply, type RelayReply } from "../protocols/godistlock/relay.ts";
import type { Clock, Continuation } from "./dial.ts";
import type { Question } from "./effects.ts";
import {
  AUTH_REQUIRED,
  type IncomingAction,
  IncomingRelay,
  type IncomingState,
  type RelayIdentity,
} from "./incoming.ts";

/** A refusal for want of a token is followed by the close after this time. */
const REFUSAL_PAUSE_MS = 100;
/** Lines that have been received and not yet executed. */
const MAX_BACKLOG_BYTES = 65_536;
const DONE = 1000;

export interface IncomingHost {
  readonly identity: RelayIdentity;
  readonly token: string;
  readonly readTimeoutMs: number;
  readonly clock: Clock;
  /** The peer has said something. */
  heard(peer: string): void;
  answer(peer: string, version: string, question: Question, reply: Continuation<RelayReply | undefined>): void;
  /** A question could not be answered; its connection is closed. */
  failed(error: unknown): void;
}

/** What a host that may forget the connection, but not its socket, has to keep. */
export interface IncomingSnapshot {
  readonly state: IncomingState;
  /** The beginning of a line. */
  readonly partial: Uint8Array;
  /** A bridge carries the connection, and wants to hear how much of its input has been consumed. */
  readonly hasWindow: boolean;
}

/** The way to the other deployment. None of these throws, also after the connection has ended. */
export interface IncomingCarrier {
  send(line: string): void;
  /** Tells a bridge how much input has been consumed. */
  acknowledge(frame: Uint8Array): void;
  /** Once everything sent so far has been written. */
  close(code: number): void;
  /** The snapshot has changed. */
  save(snapshot: IncomingSnapshot): void;
}

type Step = LineEvent | { readonly type: "consumed"; readonly bytes: number } | { readonly type: "end" };

/** One connection of another deployment: its lines are executed and answered in order, one at a time. */
export class IncomingConnection {
  readonly #host: IncomingHost;
  readonly #carrier: IncomingCarrier;
  readonly #relay: IncomingRelay;
  readonly #reader: LineReader;
  readonly #window: ReceiveWindow | undefined;
  readonly #steps: Step[] = [];
  #backlog = 0;
  #isAsking = false;
  #isWorking = false;
  #isOver = false;
  #stopDeadline: (() => void) | undefined;

  constructor(host: IncomingHost, carrier: IncomingCarrier, { state, partial, hasWindow }: IncomingSnapshot) {
    this.#host = host;
    this.#carrier = carrier;
    this.#relay = new IncomingRelay(host.identity, state);
    this.#reader = new LineReader(partial);
    this.#window = hasWindow ? new ReceiveWindow() : undefined;
    this.#watch();
  }

  /** The peer at the other end, once it has introduced itself. */
  get peer(): string | undefined {
    return this.#relay.peer;
  }

  /** The buffer may be reused afterwards. */
  received(bytes: Uint8Array): void {
    if (this.#isOver) return;
    this.#backlog += bytes.length;
    if (this.#backlog > MAX_BACKLOG_BYTES && this.#isKnown) {
      this.#close(CLOSE_CODES["line-too-long"]);
      return;
    }
    for (const event of this.#reader.read(bytes)) {
      this.#steps.push(event.type === "line" ? { type: "line", line: event.line.slice() } : event);
      // The line that follows has a deadline of its own.
      if (this.#isKnown) this.#endDeadline();
    }
    this.#steps.push({ type: "consumed", bytes: bytes.length });
    this.#work();
    this.#progressed();
  }

  /** The other deployment will send nothing more. */
  inputEnded(): void {
    this.#steps.push({ type: "end" });
    this.#work();
  }

  /** The other deployment sent a message longer than allowed. */
  sentTooMuch(): void {
    this.#close(CLOSE_CODES["line-too-long"]);
  }

  /** The connection has ended. */
  closed(): void {
    this.#isOver = true;
    this.#endDeadline();
  }

  get #isKnown(): boolean {
    return this.#relay.state.phase !== "unknown";
  }

  /** Executes what has been received, up to a question whose answer takes time. */
  #work(): void {
    if (this.#isWorking) return;
    this.#isWorking = true;
    while (!this.#isOver && !this.#isAsking) {
      const step = this.#steps.shift();
      if (!step) break;
      this.#execute(step);
    }
    this.#isWorking = false;
  }

  #execute(step: Step): void {
    switch (step.type) {
      case "line":
        this.#take(step.line);
        break;
      case "line_too_long":
        this.#refuse(this.#isKnown ? { word: "line-too-long", nonce: NO_NONCE } : AUTH_REQUIRED);
        break;
      case "consumed": {
        this.#backlog -= step.bytes;
        const frame = this.#window?.consumed(step.bytes);
        if (frame) this.#carrier.acknowledge(frame);
        break;
      }
      case "end":
        if (this.#isKnown) this.#close(DONE);
        else this.#refuse(AUTH_REQUIRED);
    }
  }

  #take(line: Uint8Array): void {
    let action = this.#relay.take(line);
    if (action.type === "authenticate") {
      const isRight = sameSecret(action.token.trim(), this.#host.token);
      action = this.#relay.authenticated(isRight, action.nonce);
    }
    if (this.#relay.peer !== undefined) this.#host.heard(this.#relay.peer);
    this.#act(action);
    this.#progressed();
  }

  #act(action: IncomingAction): void {
    switch (action.type) {
      case "reply":
        this.#carrier.send(formatRelayReply(action.reply));
        break;
      case "ask":
        this.#ask(action);
        break;
      case "refuse":
        this.#refuse(action.fault);
        break;
      case "hang_up":
        this.#close(DONE);
    }
  }

  #ask({ id, version, question }: Extract<IncomingAction, { type: "ask" }>): void {
    this.#isAsking = true;
    this.#host.answer(id, version, question, {
      done: (reply) => {
        this.#isAsking = false;
        if (reply && !this.#isOver) this.#carrier.send(formatRelayReply(reply));
        this.#work();
      },
      failed: (error) => {
        this.#isAsking = false;
        this.#host.failed(error);
        this.#refuse({ word: "internal", nonce: NO_NONCE });
      },
    });
  }

  #refuse(fault: LineFault): void {
    if (this.#isOver) return;
    this.#carrier.send(errorLine(fault));
    this.closed();
    const code = CLOSE_CODES[fault.word];
    if (fault.word === "auth-required") this.#host.clock.after(REFUSAL_PAUSE_MS, () => this.#carrier.close(code));
    else this.#carrier.close(code);
  }

  #close(code: number): void {
    if (this.#isOver) return;
    this.closed();
    this.#carrier.close(code);
  }

  #progressed(): void {
    if (this.#isOver) return;
    const { state } = this.#relay;
    this.#carrier.save({ state, partial: this.#reader.partial, hasWindow: this.#window !== undefined });
    this.#watch();
  }

  /** A line, or the token, has to be complete within the read timeout. An idle connection is never cut. */
  #watch(): void {
    if (this.#isKnown && !this.#reader.isMidLine) this.#endDeadline();
    else
      this.#stopDeadline ??= this.#host.clock.after(this.#host.readTimeoutMs, () =>
        this.#refuse(this.#isKnown ? { word: "read-timeout", nonce: NO_NONCE } : AUTH_REQUIRED),
      );
  }

  #endDeadline(): void {
    this.#stopDeadline?.();
    this.#stopDeadline = undefined;
  }
}
