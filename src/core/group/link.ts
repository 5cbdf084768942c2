import type { RelayPeer } from "../config/relay-peers.ts";
import { LineReader } from "../protocols/godistlock/lines.ts";
import {
  exchangesFences,
  formatRelayRequest,
  parseRelayLine,
  type RelayReply,
  type RelayRequest,
} from "../protocols/godistlock/relay.ts";
import type { Carrier, Clock, Dial } from "./dial.ts";
import type { Question } from "./effects.ts";

/** Connecting and introducing ourselves takes no longer than this. */
const OPEN_MS = 1_000;
/** An open connection keeps a Durable Object in memory and on the bill. */
const IDLE_MS = 60_000;
/** A peer that could not be reached is not tried again before. */
const RETRY_MS = 500;
/** A peer that says nothing for this long after a question is lost, even if nothing has closed the connection. */
const SILENT_MS = 5_000;
const HELLO_NONCE = "hello";
const AUTH_NONCE = "auth";

export type Answer = Extract<RelayReply, { type: "stat" | "ack" | "conf" }>;

export interface LinkOptions {
  readonly peer: RelayPeer;
  readonly ownId: string;
  readonly version: string;
  readonly token: string;
  readonly dial: Dial;
  readonly clock: Clock;
  heard(): void;
  answered(reply: Answer): void;
  /** What was asked and not answered will not be. */
  lost(): void;
}

type Reached = (isThere: boolean) => void;

interface Attempt {
  carrier?: Carrier;
  isOpen: boolean;
  /** Told whether the peer has answered the introduction. */
  readonly opened: Reached[];
}

/** The connection to one peer, dialled when it is needed. Questions reach the peer in the order they were asked. */
export class Link {
  readonly #options: LinkOptions;
  /** Undefined while the link is closed. */
  #attempt: Attempt | undefined;
  #waiting: Question[] = [];
  #hasFences = false;
  #failedAt = Number.NEGATIVE_INFINITY;
  #stopIdle = () => {};
  /** Runs while a question is unanswered. */
  #stopSilence: (() => void) | undefined;
  /** Wait for the next line of the peer. */
  #signs: Reached[] = [];
  #isShut = false;

  constructor(options: LinkOptions) {
    this.#options = options;
  }

  /** If the peer cannot be reached, `lost` is told, perhaps at once. */
  ask(question: Question): void {
    if (this.#attempt?.isOpen) this.#send(question);
    else {
      this.#waiting.push(question);
      this.#open(() => {});
    }
  }

  /**
   * Tells whether the peer is there. If the connection is open already, the peer has to say something on it; otherwise
   * it has to answer the introduction.
   */
  reach(reached: Reached): void {
    const carrier = this.#attempt?.isOpen ? this.#attempt.carrier : undefined;
    if (!carrier) {
      this.#open(reached);
      return;
    }
    this.#signs.push(reached);
    if (this.#signs.length > 1) return;
    // Either way the timer is over then.
    this.#signs.push(this.#options.clock.after(OPEN_MS, () => this.#heardSign(false)));
    carrier.send(this.#hello);
  }

  /** Closes the connection for good. */
  shut(): void {
    this.#isShut = true;
    if (this.#attempt) this.#close(this.#attempt);
  }

  get #hello(): string {
    const { ownId, version } = this.#options;
    return formatRelayRequest({ type: "hello", id: ownId, version, nonce: HELLO_NONCE });
  }

  #heardSign(isThere: boolean): void {
    const signs = this.#signs;
    this.#signs = [];
    for (const reached of signs) reached(isThere);
  }

  #open(opened: Reached): void {
    if (this.#attempt) {
      this.#attempt.opened.push(opened);
      return;
    }
    const { peer, token, dial, clock } = this.#options;
    if (this.#isShut || clock.now() - this.#failedAt < RETRY_MS) {
      this.#drop();
      opened(false);
      return;
    }
    const attempt: Attempt = { isOpen: false, opened: [opened] };
    this.#attempt = attempt;
    const reader = new LineReader();
    try {
      attempt.carrier = dial(
        { url: peer.url, token },
        {
          opened: () => this.#introduce(attempt),
          received: (bytes) => this.#received(attempt, reader, bytes),
          closed: () => this.#close(attempt),
        },
      );
      // Either way the timer is over then.
      attempt.opened.push(clock.after(OPEN_MS, () => this.#close(attempt)));
    } catch {
      this.#close(attempt);
    }
  }

  #introduce(attempt: Attempt): void {
    const { peer, token } = this.#options;
    // On a WebSocket the upgrade has shown the token.
    const isTcp = peer.url.startsWith("tcp:");
    const auth = isTcp ? formatRelayRequest({ type: "auth", token, nonce: AUTH_NONCE }) : "";
    if (this.#attempt === attempt) attempt.carrier?.send(auth + this.#hello);
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
      this.#endSilence();
      this.#heardSign(true);
      const { reply } = parsed.message;
      if (reply.type === "howdy") this.#greeted(attempt, reply);
      else this.#options.answered(reply);
      if (this.#attempt !== attempt) return;
    }
  }

  #greeted(attempt: Attempt, reply: Extract<RelayReply, { type: "howdy" }>): void {
    if (reply.nonce !== HELLO_NONCE || attempt.isOpen) return;
    // Another deployment answers at this address, or this one itself.
    if (reply.id !== this.#options.peer.id) {
      this.#close(attempt);
      return;
    }
    this.#hasFences = exchangesFences(reply.version);
    attempt.isOpen = true;
    const waiting = this.#waiting;
    this.#waiting = [];
    for (const question of waiting) this.#send(question);
    this.#restartIdle(attempt);
    for (const opened of attempt.opened.splice(0)) opened(true);
  }

  #send(question: Question): void {
    const attempt = this.#attempt;
    if (!attempt) return;
    this.#restartIdle(attempt);
    // An `OFF` is not answered.
    if (question.type !== "off") this.#stopSilence ??= this.#options.clock.after(SILENT_MS, () => this.#close(attempt));
    attempt.carrier?.send(formatRelayRequest(this.#hasFences ? question : withoutFence(question)));
  }

  #endSilence(): void {
    this.#stopSilence?.();
    this.#stopSilence = undefined;
  }

  #restartIdle(attempt: Attempt): void {
    this.#stopIdle();
    this.#stopIdle = this.#options.clock.after(IDLE_MS, () => this.#close(attempt));
  }

  #close(attempt: Attempt): void {
    if (this.#attempt !== attempt) return;
    this.#attempt = undefined;
    this.#stopIdle();
    this.#endSilence();
    attempt.carrier?.close();
    if (!attempt.isOpen) this.#failedAt = this.#options.clock.now();
    for (const opened of attempt.opened.splice(0)) opened(false);
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
