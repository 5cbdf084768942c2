import type { Outcome } from "../protocols/statuses.ts";

/**
 * A long poll is held open by the Worker, which listens on a socket to the session: so the session's object may sleep
 * while its client waits, and learns at once when the Worker, and with it the client, is gone.
 */
export interface Poll {
  readonly id: string;
  readonly key: string;
  readonly type: "acquire" | "wait";
}

/** What the Worker is told: the answer to the request, or that its session has ended. */
export type PollNews<Answer = Outcome> =
  | { readonly type: "answer"; readonly outcome: Answer }
  | { readonly type: "gone" };

/** How the Worker ends a poll: it has given the answer to its client, or its client has hung up. */
export const POLL_CLOSE = { delivered: 1000, vanished: 4408 } as const;

interface Attachment extends Poll {
  /** What the Worker has been told: nothing yet, that there is nothing to have, or a token. */
  readonly told: "nothing" | "refusal" | "grant";
}

/** The polls of one session. They live with their sockets, so they outlive the sleep of the object. */
export class Polls {
  readonly #ctx: DurableObjectState;

  constructor(ctx: DurableObjectState) {
    this.#ctx = ctx;
  }

  get all(): Poll[] {
    return this.#ctx.getWebSockets().map(pollOf);
  }

  get isAnyOpen(): boolean {
    return this.#ctx.getWebSockets().some(({ readyState }) => readyState === WebSocket.READY_STATE_OPEN);
  }

  /** The poll of this request, while its client is there. */
  find(id: string): Poll | undefined {
    const socket = this.#openSocket(id);
    return socket && pollOf(socket);
  }

  /** The Worker's end of a new poll. */
  open(poll: Poll): WebSocket {
    const { 0: theirs, 1: ours } = new WebSocketPair();
    this.#ctx.acceptWebSocket(ours, [poll.id]);
    ours.serializeAttachment({ ...poll, told: "nothing" } satisfies Attachment);
    return theirs;
  }

  /** Whether the poll is open and has not been told its end. */
  isWaiting({ id }: Poll): boolean {
    const socket = this.#openSocket(id);
    return socket !== undefined && attachmentOf(socket).told === "nothing";
  }

  /** Tells a poll its end. The first one counts: of any other it hears nothing, and false is the answer. */
  answer(poll: Poll, outcome: Outcome): boolean {
    const socket = this.#openSocket(poll.id);
    if (!socket || !this.isWaiting(poll)) return false;
    socket.serializeAttachment({ ...poll, told: outcome.token ? "grant" : "refusal" } satisfies Attachment);
    return tell(socket, { type: "answer", outcome });
  }

  /** The session has ended: every poll is told. */
  dismissAll(): void {
    for (const socket of this.#ctx.getWebSockets()) tell(socket, { type: "gone" });
  }

  /** The Worker is done with a poll. If its client has not heard the end of it, the request is to be withdrawn. */
  closed(socket: WebSocket, code: number): { readonly poll: Poll; readonly isUnheard: boolean } {
    const { told, ...poll } = attachmentOf(socket);
    return { poll, isUnheard: told === "nothing" || (told === "grant" && code !== POLL_CLOSE.delivered) };
  }

  /** A socket that the Worker has closed is listed until its close has been dealt with. */
  #openSocket(id: string): WebSocket | undefined {
    return this.#ctx.getWebSockets(id).find(({ readyState }) => readyState === WebSocket.READY_STATE_OPEN);
  }
}

function tell(socket: WebSocket, news: PollNews): boolean {
  try {
    socket.send(JSON.stringify(news));
    return true;
  } catch {
    return false;
  }
}

function pollOf(socket: WebSocket): Poll {
  const { id, key, type } = attachmentOf(socket);
  return { id, key, type };
}

function attachmentOf(socket: WebSocket): Attachment {
  return socket.deserializeAttachment() as Attachment;
}
