import type { Outcome } from "../../protocols/statuses.ts";
import type { Parked } from "../../session/polled-session.ts";
import type { Reply } from "../calls/replies.ts";

interface OpenPoll {
  readonly socket: WebSocket;
  readonly parked: Parked;
}

/**
 * The polls of one session. The Worker holds a long poll open and listens on a socket to the session. So the session's
 * object may sleep while its client waits, and learns immediately when the Worker, and with it the client, is gone. The
 * state of a poll is attached to its socket, so it survives the object's sleep.
 */
export class Polls {
  readonly #ctx: DurableObjectState;
  /** By request, until the close of the socket has been handled. */
  readonly #polls: Map<string, OpenPoll>;

  constructor(ctx: DurableObjectState) {
    this.#ctx = ctx;
    this.#polls = new Map(
      ctx.getWebSockets().map((socket) => {
        const parked = socket.deserializeAttachment() as Parked;
        return [parked.id, { socket, parked }];
      }),
    );
  }

  get all(): Parked[] {
    return [...this.#polls.values()].map(({ parked }) => parked);
  }

  get isAnyOpen(): boolean {
    for (const poll of this.#polls.values()) if (isOpen(poll)) return true;
    return false;
  }

  /** Whether the Worker has closed the poll of this request, and that has not been handled yet. */
  isClosing(id: string): boolean {
    const poll = this.#polls.get(id);
    return poll !== undefined && !isOpen(poll);
  }

  /** The Worker's end of a new poll. */
  open(poll: Omit<Parked, "told">): WebSocket {
    const { 0: theirs, 1: ours } = new WebSocketPair();
    this.#ctx.acceptWebSocket(ours);
    this.#attach(ours, { ...poll, told: "nothing" });
    return theirs;
  }

  /** Answers a poll. False if its client is gone. */
  answer(id: string, outcome: Outcome): boolean {
    const poll = this.#polls.get(id);
    if (!poll || !isOpen(poll)) return false;
    this.#attach(poll.socket, { ...poll.parked, told: outcome.token ? "grant" : "refusal" });
    return tell(poll.socket, { type: "answered", outcome });
  }

  /** Tells a poll that the session has ended. */
  dismiss(id: string): void {
    const poll = this.#polls.get(id);
    if (poll) tell(poll.socket, { type: "gone" });
  }

  /** The Worker has closed a poll. */
  closed(socket: WebSocket): Parked {
    const parked = socket.deserializeAttachment() as Parked;
    this.#polls.delete(parked.id);
    return parked;
  }

  #attach(socket: WebSocket, parked: Parked): void {
    socket.serializeAttachment(parked);
    this.#polls.set(parked.id, { socket, parked });
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
