import { HERE, POLL_CLOSE, type PollNews } from "../objects/polls.ts";
import type { Outcome } from "../protocols/statuses.ts";

/** How a held request ended: with an answer, or with its session, its client or the service gone. */
export type PollEnd =
  | { readonly type: "answered"; readonly outcome: Outcome }
  | { readonly type: "gone" | "vanished" | "lost" };

/** How the poll's replies look. */
export interface PollReplies {
  /** The whole reply to a poll that ends without a grant. */
  whole(end: PollEnd): Response;
  /** A reply with status 200 whose body is still to come. */
  begun(body: ReadableStream): Response;
  /** The body of a reply that has begun: of success, whatever has become of the grant meanwhile. */
  body(outcome: Outcome): string;
}

/** For a client whose reply has begun when its session ends: it has got nothing. */
const NOTHING: Outcome = { status: "timeout" };

const encoder = new TextEncoder();
const BLANK = encoder.encode(" ");

/**
 * A client that has left shows only after something has been written to it (workerd 2026-11): the first write seems to
 * succeed, its connection is reset, and the next one fails. This is the time left for the reset to come back.
 */
const PROBE_MS = 30;

/**
 * Holds a request open until its session has an answer. A grant is picked up only for a client that is still there:
 * the reply is begun with blanks, which readers of JSON skip, and if they cannot be written the grant is given back.
 */
export class HeldRequest {
  readonly #socket: WebSocket;
  readonly #replies: PollReplies;
  readonly #reply = Promise.withResolvers<Response>();
  readonly #end = Promise.withResolvers<PollEnd>();
  #writer: WritableStreamDefaultWriter<Uint8Array> | undefined;
  #isOver = false;

  constructor(socket: WebSocket, signal: AbortSignal, replies: PollReplies) {
    this.#socket = socket;
    this.#replies = replies;
    socket.addEventListener("message", ({ data }) => void this.#hear(JSON.parse(String(data)) as PollNews));
    socket.addEventListener("close", () => this.#finish({ type: "lost" }));
    socket.addEventListener("error", () => this.#finish({ type: "lost" }));
    signal.addEventListener("abort", () => this.#finish({ type: "vanished" }));
    socket.accept();
    if (signal.aborted) this.#finish({ type: "vanished" });
  }

  /** Resolves when there is something to say. */
  get reply(): Promise<Response> {
    return this.#reply.promise;
  }

  /** Resolves when everything has been said, or nobody listens any more. */
  get end(): Promise<PollEnd> {
    return this.#end.promise;
  }

  async #hear(news: PollNews): Promise<void> {
    if (news.type === "knock") await this.#probe();
    else if (this.#writer) await this.#write(this.#writer, news.type === "answer" ? news.outcome : NOTHING);
    else this.#finish(news.type === "answer" ? { type: "answered", outcome: news.outcome } : { type: "gone" });
  }

  async #probe(): Promise<void> {
    if (this.#writer || this.#isOver) return;
    const { readable, writable } = new IdentityTransformStream();
    const writer = writable.getWriter();
    this.#writer = writer;
    this.#reply.resolve(this.#replies.begun(readable));
    try {
      await writer.write(BLANK);
      await scheduler.wait(PROBE_MS);
      await writer.write(BLANK);
      if (!this.#isOver) this.#socket.send(HERE);
    } catch {
      this.#finish({ type: "vanished" });
    }
  }

  async #write(writer: WritableStreamDefaultWriter<Uint8Array>, outcome: Outcome): Promise<void> {
    try {
      await writer.write(encoder.encode(this.#replies.body(outcome)));
      await writer.close();
      this.#finish({ type: "answered", outcome });
    } catch {
      this.#finish({ type: "vanished" });
    }
  }

  #finish(end: PollEnd): void {
    if (this.#isOver) return;
    this.#isOver = true;
    if (this.#writer && end.type !== "answered") void this.#writer.abort(end.type).catch(() => {});
    this.#reply.resolve(this.#replies.whole(end));
    this.#end.resolve(end);
    try {
      this.#socket.close(end.type === "answered" ? POLL_CLOSE.delivered : POLL_CLOSE.vanished);
    } catch {
      // The session's end is closed already.
    }
  }
}
