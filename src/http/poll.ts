import { HERE, POLL_CLOSE, type PollNews } from "../objects/polls.ts";
import type { Outcome } from "../protocols/statuses.ts";

/** How a held request ended: with an answer, or with its session, its client or the service gone. */
export type PollEnd =
  | { readonly type: "answered"; readonly outcome: Outcome }
  | { readonly type: "gone" | "vanished" | "lost" };

type Writer = WritableStreamDefaultWriter<Uint8Array>;

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
/** A reply may begin with no more. */
const MOST_BLANKS = 16;

/**
 * A client that has left shows only after something has been written to it (workerd 2026-11): that write seems to
 * succeed, a reset comes back, which takes as long as the way to the client is, and what is written then fails. So
 * blanks are written with ever longer pauses. Who has waited long is worth a longer look, and can spare the time.
 */
const FIRST_PAUSE_MS = 30;
const LONGEST_LOOK_MS = 450;
const SHARE_OF_WAIT = 1 / 5;
/** A write that meets a reset seems to succeed as well: it fails right after, and the next one tells. */
const FAILURE_MS = 3;

/**
 * Holds a request open until its session has an answer. A grant is picked up only for a client that is still there:
 * the reply is begun with blanks, which readers of JSON skip, and a grant that cannot be written is given back. Once a
 * token has been written whole it is the client's, whatever becomes of the connection.
 */
export class HeldRequest {
  readonly #socket: WebSocket;
  readonly #replies: PollReplies;
  readonly #reply = Promise.withResolvers<Response>();
  readonly #end = Promise.withResolvers<PollEnd>();
  #writer: Writer | undefined;
  readonly #startedAt = Date.now();
  #blanks = 0;
  #isAnswered = false;
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

  /** The first answer counts; a session that could not be sure of it may give another. */
  async #hear(news: PollNews): Promise<void> {
    if (this.#isAnswered || this.#isOver) return;
    if (news.type === "knock") {
      await this.#probe();
      return;
    }
    this.#isAnswered = true;
    if (this.#writer) await this.#write(this.#writer, news.type === "answer" ? news.outcome : NOTHING);
    else this.#finish(news.type === "answer" ? { type: "answered", outcome: news.outcome } : { type: "gone" });
  }

  /** Says whether the client is there. A session that has slept over the answer asks again. */
  async #probe(): Promise<void> {
    this.#writer ??= this.#begin();
    try {
      for (const pauseMs of pausesFor(Date.now() - this.#startedAt)) await this.#blank(this.#writer, pauseMs);
      await this.#blank(this.#writer, FAILURE_MS);
      await this.#blank(this.#writer, 0);
      if (!this.#isOver) this.#socket.send(HERE);
    } catch {
      if (!this.#isAnswered) this.#finish({ type: "vanished" });
    }
  }

  async #blank(writer: Writer, pauseMs: number): Promise<void> {
    this.#blanks += 1;
    if (this.#blanks <= MOST_BLANKS) await writer.write(BLANK);
    if (pauseMs > 0) await scheduler.wait(pauseMs);
  }

  #begin(): Writer {
    const { readable, writable } = new IdentityTransformStream();
    this.#reply.resolve(this.#replies.begun(readable));
    return writable.getWriter();
  }

  /** Writes the reply in two parts: who has left before the second has not got a whole token, and so no lock. */
  async #write(writer: Writer, outcome: Outcome): Promise<void> {
    const text = this.#replies.body(outcome);
    const middle = outcome.token ? text.indexOf(outcome.token) + outcome.token.length / 2 : 0;
    try {
      await writer.write(encoder.encode(text.slice(0, middle)));
      await scheduler.wait(FAILURE_MS);
      await writer.write(encoder.encode(text.slice(middle)));
      this.#finish({ type: "answered", outcome: outcome.token ? outcome : NOTHING });
    } catch {
      this.#finish({ type: "vanished" });
    }
  }

  /** Ends a reply that has begun. One whose session was lost has got nothing: what it may have got is withdrawn. */
  async #conclude(writer: Writer, end: PollEnd): Promise<void> {
    try {
      if (end.type === "lost") await writer.write(encoder.encode(this.#replies.body(NOTHING)));
      await writer.close();
    } catch {
      // There is nobody to tell.
    }
  }

  #finish(end: PollEnd): void {
    if (this.#isOver) return;
    this.#isOver = true;
    if (this.#writer) void this.#conclude(this.#writer, end);
    this.#reply.resolve(this.#replies.whole(end));
    this.#end.resolve(end);
    try {
      this.#socket.close(end.type === "answered" ? POLL_CLOSE.delivered : POLL_CLOSE.vanished);
    } catch {
      // The session's end is closed already.
    }
  }
}

/** The pauses between the blanks for a client that has waited so long. */
function* pausesFor(waitedMs: number): Generator<number> {
  const lookMs = Math.min(Math.max(waitedMs * SHARE_OF_WAIT, FIRST_PAUSE_MS), LONGEST_LOOK_MS);
  for (let [spent, pauseMs] = [0, FIRST_PAUSE_MS]; spent < lookMs; spent += pauseMs, pauseMs *= 2) {
    yield Math.min(pauseMs, lookMs - spent);
  }
}
