import { countAnswer } from "../../core/metrics/count.ts";
import type { Outcome } from "../../core/protocols/statuses.ts";
import type { Parked } from "../../core/session/polled-session.ts";
import type { Reply } from "../calls/replies.ts";
import type { Meter } from "../metrics/meter.ts";

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
  readonly #meter: Meter;
  /** By request, until the close of the socket has been handled. */
  readonly #polls: Map<string, OpenPoll>;

  constructor(ctx: DurableObjectState, meter: Meter) {
    this.#ctx = ctx;
    this.#meter = meter;
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

  /** Answers a poll, unless its client is gone, or tells it that the session has ended. */
  answer(id: string, outcome: Outcome | "gone"): void {
    const poll = this.#polls.get(id);
    if (!poll) return;
    if (outcome === "gone") tell(poll.socket, { type: "gone" });
    else if (isOpen(poll)) {
      this.#attach(poll.socket, { ...poll.parked, told: outcome.token ? "grant" : "refusal" });
      if (tell(poll.socket, { type: "answered", outcome })) countAnswer(this.#meter, outcome.status);
    }
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
