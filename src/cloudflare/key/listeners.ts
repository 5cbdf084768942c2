import type { ClaimCommand, ClaimOutcome, KeyCommandOf, KeyOutcomeOf } from "../../core/engine/index.ts";
import { log } from "../../log.ts";
import { answerClose, closeSocket } from "../calls/closing.ts";
import { POLL_CLOSE, type Reply } from "../calls/replies.ts";

/** A Worker whose socket was cut by a restart of the key's object reconnects with the same claim within this time. */
const RECONNECTS_WITHIN_MS = 2_000;

/** Close code for a listener whose claim could not be decided. */
const FAILED_CODE = 1011;

/** The part of a key that listeners need. */
interface Claims {
  carryOut<Type extends "claim" | "collect" | "cancel">(command: KeyCommandOf<Type>): Promise<KeyOutcomeOf<Type>>;
}

interface Attachment {
  readonly request: string;
  /**
   * `present`: no claim has come on this socket. `replaced`: its Worker has made the claim again on another one. Otherwise
   * what the Worker has been told of the claim: nothing yet, or its end.
   */
  readonly state: "present" | "waiting" | "refused" | "granted" | "replaced";
}

/**
 * Waiting claims of holders without a session. A Worker holds each one open and listens on a socket to the key: so
 * waiting costs no object of its own, the key may sleep meanwhile, and it learns immediately when the client is gone.
 */
export class KeyListeners {
  readonly #ctx: DurableObjectState;
  readonly #claims: Claims;
  readonly #wokenAt = Date.now();

  constructor(ctx: DurableObjectState, claims: Claims) {
    this.#ctx = ctx;
    this.#claims = claims;
  }

  /** Whether a missing listener may still reconnect: its Worker is present, or may not have noticed yet that it was cut off. */
  mayReturn(request: string): boolean {
    return this.#isPresent(request) || Date.now() - this.#wokenAt < RECONNECTS_WITHIN_MS;
  }

  /** The Worker's end of a new listener. A claim may follow as its first message. While it is open, the Worker is present. */
  open(request: string): WebSocket {
    const { 0: theirs, 1: ours } = new WebSocketPair();
    this.#ctx.acceptWebSocket(ours, [request]);
    ours.serializeAttachment({ request, state: "present" } satisfies Attachment);
    return theirs;
  }

  /** Whether a listener is connected and unanswered. */
  isWaiting(request: string): boolean {
    return this.#waiting(request) !== undefined;
  }

  /** Answers a claim. Only the first answer is sent. */
  answer(request: string, outcome: ClaimOutcome): void {
    const socket = this.#waiting(request);
    if (!socket) return;
    const state = outcome.status === "granted" ? "granted" : "refused";
    socket.serializeAttachment({ request, state } satisfies Attachment);
    try {
      socket.send(JSON.stringify({ type: "answered", outcome } satisfies Reply<ClaimOutcome>));
    } catch {
      // Its close event follows and withdraws the claim if needed.
    }
  }

  /** Handles the claim a listener sends. It is answered now, or when it is granted or times out. */
  async heard(socket: WebSocket, message: string | ArrayBuffer): Promise<void> {
    try {
      const command = JSON.parse(String(message)) as ClaimCommand;
      this.#replaceAll(command.request);
      socket.serializeAttachment({ request: command.request, state: "waiting" } satisfies Attachment);
      let outcome = await this.#claims.carryOut<"claim">({ type: "claim", command });
      // The claim may have been made before, on a socket that was cut, and be decided by now.
      if (outcome.status === "queued")
        outcome = await this.#claims.carryOut<"collect">({ type: "collect", request: command.request });
      if (outcome.status !== "queued") this.answer(command.request, outcome);
    } catch (error) {
      log("error", "claim_failed", { error: String(error) });
      closeSocket(socket, FAILED_CODE);
    }
  }

  /**
   * Handles the Worker's close. If the client did not receive the outcome and is no longer present, the claim is withdrawn. A
   * Worker that only pauses goes on, even if a restart of the key's object has cut the socket of its presence.
   */
  async closed(socket: WebSocket, code: number): Promise<void> {
    answerClose(socket, code);
    const { request, state } = attachmentOf(socket);
    const isOver = state === "refused" || state === "replaced";
    const mayStay = isOver || code === POLL_CLOSE.delivered || code === POLL_CLOSE.paused;
    // A Worker that lost its socket may have reconnected by now.
    if (!mayStay && !this.#isPresent(request)) await this.#claims.carryOut<"cancel">({ type: "cancel", request });
  }

  /** Earlier sockets of a claim no longer speak for it. Their close may come late: the Worker noticed the loss first. */
  #replaceAll(request: string): void {
    for (const socket of this.#ctx.getWebSockets(request))
      if (attachmentOf(socket).state !== "present")
        socket.serializeAttachment({ request, state: "replaced" } satisfies Attachment);
  }

  #waiting(request: string): WebSocket | undefined {
    return this.#open(request).find((socket) => attachmentOf(socket).state === "waiting");
  }

  #isPresent(request: string): boolean {
    return this.#open(request).some((socket) => ["present", "waiting"].includes(attachmentOf(socket).state));
  }

  /** A socket that the Worker has closed stays listed until its close has been handled. */
  #open(request: string): WebSocket[] {
    return this.#ctx.getWebSockets(request).filter(({ readyState }) => readyState === WebSocket.READY_STATE_OPEN);
  }
}

function attachmentOf(socket: WebSocket): Attachment {
  return socket.deserializeAttachment() as Attachment;
}
