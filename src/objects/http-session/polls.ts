import type { Outcome } from "../../protocols/statuses.ts";
import { POLL_CLOSE, type Reply } from "../calls/replies.ts";

/**
 * The Worker holds a long poll open and listens on a socket to the session. So the session's object may sleep while its
 * client waits, and learns immediately when the Worker, and with it the client, is gone.
 */
export interface Poll {
  readonly id: string;
  readonly key: string;
  readonly type: "acquire" | "wait";
}

interface Attachment extends Poll {
  /** What the Worker has been told: nothing yet, a refusal, or a grant with its token. */
  readonly told: "nothing" | "refusal" | "grant";
}

interface OpenPoll {
  readonly socket: WebSocket;
  readonly attachment: Attachment;
}

/** The polls of one session. Their state is attached to their sockets, so they survive the object's sleep. */
export class Polls {
  readonly #ctx: DurableObjectState;
  /** By request, until the close of the socket has been handled. */
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

  /** The poll of this request, while its client is connected. */
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

  /** Whether the poll is open and unanswered. */
  isWaiting({ id }: Poll): boolean {
    const poll = this.#polls.get(id);
    return poll !== undefined && isOpen(poll) && poll.attachment.told === "nothing";
  }

  /** Answers a poll. Only the first answer is sent; for any other this returns false. */
  answer(poll: Poll, outcome: Outcome): boolean {
    const socket = this.#polls.get(poll.id)?.socket;
    if (!socket || !this.isWaiting(poll)) return false;
    this.#attach(socket, { ...poll, told: outcome.token ? "grant" : "refusal" });
    return tell(socket, { type: "answered", outcome });
  }

  /** Tells every poll that the session has ended. */
  dismissAll(): void {
    for (const { socket } of this.#polls.values()) tell(socket, { type: "gone" });
  }

  /** Handles the Worker's close of a poll. If `isUnheard`, the client got no outcome: withdraw the request. */
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

/** A socket that the Worker has closed stays listed until its close has been handled. */
function isOpen({ socket }: OpenPoll): boolean {
  return socket.readyState === WebSocket.READY_STATE_OPEN;
}

function pollOf({ attachment: { id, key, type } }: OpenPoll): Poll {
  return { id, key, type };
}
