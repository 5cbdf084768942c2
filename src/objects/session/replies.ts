import { type Outcome, wireReply, wireReplyOf } from "../../protocols/statuses.ts";
import { type ConversationHost, FAILURES } from "./conversation-host.ts";

/** What is said to one client: whole lines, each answer under the tag of its request, and counted. */
export class Replies {
  readonly #host: ConversationHost;
  #isHushed = false;

  constructor(host: ConversationHost) {
    this.#host = host;
  }

  /** Nothing is said from here on. */
  hush(): void {
    this.#isHushed = true;
  }

  say(tag: string | undefined, line: string): void {
    if (!this.#isHushed) this.#host.send(tag === undefined ? `${line}\n` : `@${tag} ${line}\n`);
  }

  ok(tag: string | undefined): void {
    this.say(tag, wireReply("ok"));
  }

  answer(tag: string | undefined, outcome: Outcome): void {
    this.#host.count({ type: "answered", status: outcome.status });
    this.say(tag, wireReplyOf(outcome));
  }

  /** The request is malformed, in the way the code names. */
  refuse(tag: string | undefined, code: number): void {
    this.#host.count({ type: "protocol_error", code });
    this.#host.debug("protocol_error", { code });
    this.say(tag, wireReply("error"));
  }

  /** A failure that is nobody's request, and is answered in its turn or not at all. */
  failed(failure: keyof typeof FAILURES): void {
    this.#host.count({ type: "protocol_error", code: FAILURES[failure] });
  }
}
