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

/** What the session tells the Worker. `knock`: there is a grant, see whether the client is still there. */
export type PollNews =
  | { readonly type: "knock" }
  | { readonly type: "answer"; readonly outcome: Outcome }
  | { readonly type: "gone" };

/** What the Worker says to a `knock`. */
export const HERE = "here";
/** How the Worker ends a poll: the client has the answer, or cannot be reached any more. */
export const POLL_CLOSE = { delivered: 1000, vanished: 4408 } as const;

/** A Worker that does not say whether its client is there has most likely died with it. */
const KNOCK_TIMEOUT_MS = 3_000;

interface Attachment extends Poll {
  /** What the Worker has been told: nothing yet, that there is nothing to have, or a token. */
  readonly told: "nothing" | "refusal" | "grant";
}

/** The polls of one session. They live with their sockets, so they outlive the sleep of the object. */
export class Polls {
  readonly #ctx: DurableObjectState;
  readonly #knocks = new Map<string, (isThere: boolean) => void>();

  constructor(ctx: DurableObjectState) {
    this.#ctx = ctx;
  }

  get all(): Poll[] {
    return this.#ctx.getWebSockets().map(pollOf);
  }

  find(id: string): Poll | undefined {
    const [socket] = this.#ctx.getWebSockets(id);
    return socket && pollOf(socket);
  }

  /** The Worker's end of a new poll. */
  open(poll: Poll): WebSocket {
    const { 0: theirs, 1: ours } = new WebSocketPair();
    this.#ctx.acceptWebSocket(ours, [poll.id]);
    ours.serializeAttachment({ ...poll, told: "nothing" } satisfies Attachment);
    return theirs;
  }

  /** Whether the poll's client can still be reached. */
  async isThere({ id }: Poll): Promise<boolean> {
    if (!this.#tell(id, { type: "knock" })) return false;
    const answer = Promise.withResolvers<boolean>();
    const timer = setTimeout(() => answer.resolve(false), KNOCK_TIMEOUT_MS);
    this.#knocks.set(id, answer.resolve);
    try {
      return await answer.promise;
    } finally {
      clearTimeout(timer);
      this.#knocks.delete(id);
    }
  }

  /** Whether the poll is open and has not been told its end. */
  isWaiting({ id }: Poll): boolean {
    const [socket] = this.#ctx.getWebSockets(id);
    return socket !== undefined && attachmentOf(socket).told === "nothing";
  }

  /** Tells a poll its end. The first one counts: of any other it hears nothing, and false is the answer. */
  answer(poll: Poll, outcome: Outcome): boolean {
    if (!this.isWaiting(poll)) return false;
    const [socket] = this.#ctx.getWebSockets(poll.id);
    socket?.serializeAttachment({ ...poll, told: outcome.token ? "grant" : "refusal" } satisfies Attachment);
    return this.#tell(poll.id, { type: "answer", outcome });
  }

  /** The session has ended: every poll is told. */
  dismissAll(): void {
    for (const { id } of this.all) this.#tell(id, { type: "gone" });
  }

  heard(socket: WebSocket, message: string | ArrayBuffer): void {
    if (message === HERE) this.#knocks.get(pollOf(socket).id)?.(true);
  }

  /** The Worker is done with a poll. If its client has not heard the end of it, the request is to be withdrawn. */
  closed(socket: WebSocket, code: number): { readonly poll: Poll; readonly isUnheard: boolean } {
    const { told, ...poll } = attachmentOf(socket);
    this.#knocks.get(poll.id)?.(false);
    return { poll, isUnheard: told === "nothing" || (told === "grant" && code !== POLL_CLOSE.delivered) };
  }

  #tell(id: string, news: PollNews): boolean {
    const [socket] = this.#ctx.getWebSockets(id);
    try {
      socket?.send(JSON.stringify(news));
    } catch {
      return false;
    }
    return socket !== undefined;
  }
}

function pollOf(socket: WebSocket): Poll {
  const { id, key, type } = attachmentOf(socket);
  return { id, key, type };
}

function attachmentOf(socket: WebSocket): Attachment {
  return socket.deserializeAttachment() as Attachment;
}
