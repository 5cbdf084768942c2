import type { Outcome } from "../../protocols/statuses.ts";
import { POLL_CLOSE, type Reply } from "../calls/replies.ts";

/**
 * A long poll is held open by the Worker, which listens on a socket to the session: so the session's object may sleep
 * while its client waits, and learns at once when the Worker, and with it the client, is gone.
 */
export interface Poll {
  readonly id: string;
  readonly key: string;
  readonly type: "acquire" | "wait";
}

interface Attachment extends Poll {
  /** What the Worker has been told: nothing yet, that there is nothing to have, or a token. */
  readonly told: "nothing" | "refusal" | "grant";
}

interface OpenPoll {
  readonly socket: WebSocket;
  readonly attachment: Attachment;
}

/** The polls of one session. They live with their sockets, so they outlive the sleep of the object. */
export class Polls {
  readonly #ctx: DurableObjectState;
  /** By request, until the close of the socket has been dealt with. */
  readonly #polls: Map<string, OpenPoll>;

  constructor(ctx: DurableObjectState) {
    this.#ctx = ctx;
    this.#polls = new Map(
      ctx.getWebSockets().map((socket) => {
        const attachment = socket.deserializeAttachment() as Attachment;
        return [attachment.id, { socket, attachment }];
      }),
    );
  }

  get all(): Poll[] {
    return [...this.#polls.values()].map(pollOf);
  }

  get isAnyOpen(): boolean {
    for (const poll of this.#polls.values()) if (isOpen(poll)) return true;
    return false;
  }

  /** The poll of this request, while its client is there. */
  find(id: string): Poll | undefined {
    const poll = this.#polls.get(id);
    return poll && isOpen(poll) ? pollOf(poll) : undefined;
  }

  /** The Worker's end of a new poll. */
  open(poll: Poll): WebSocket {
    const { 0: theirs, 1: ours } = new WebSocketPair();
    this.#ctx.acceptWebSocket(ours);
    this.#attach(ours, { ...poll, told: "nothing" });
    return theirs;
  }

  /** Whether the poll is open and has not been told its end. */
  isWaiting({ id }: Poll): boolean {
    const poll = this.#polls.get(id);
    return poll !== undefined && isOpen(poll) && poll.attachment.told === "nothing";
  }

  /** Tells a poll its end. The first one counts: of any other it hears nothing, and false is the answer. */
  answer(poll: Poll, outcome: Outcome): boolean {
    const socket = this.#polls.get(poll.id)?.socket;
    if (!socket || !this.isWaiting(poll)) return false;
    this.#attach(socket, { ...poll, told: outcome.token ? "grant" : "refusal" });
    return tell(socket, { type: "answered", outcome });
  }

  /** The session has ended: every poll is told. */
  dismissAll(): void {
    for (const { socket } of this.#polls.values()) tell(socket, { type: "gone" });
  }

  /** The Worker is done with a poll. If its client has not heard the end of it, the request is to be withdrawn. */
  closed(socket: WebSocket, code: number): { readonly poll: Poll; readonly isUnheard: boolean } {
    const { told, ...poll } = socket.deserializeAttachment() as Attachment;
    this.#polls.delete(poll.id);
    return { poll, isUnheard: told === "nothing" || (told === "grant" && code !== POLL_CLOSE.delivered) };
  }

  #attach(socket: WebSocket, attachment: Attachment): void {
    socket.serializeAttachment(attachment);
    this.#polls.set(attachment.id, { socket, attachment });
  }
}

function tell(socket: WebSocket, news: Reply): boolean {
  try {
    socket.send(JSON.stringify(news));
    return true;
  } catch {
    return false;
  }
}

/** A socket that the Worker has closed stays until its close has been dealt with. */
function isOpen({ socket }: OpenPoll): boolean {
  return socket.readyState === WebSocket.READY_STATE_OPEN;
}

function pollOf({ attachment: { id, key, type } }: OpenPoll): Poll {
  return { id, key, type };
}
