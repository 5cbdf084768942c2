import { type Outcome, wireReply, wireReplyOf } from "../../protocols/statuses.ts";
import { type ConversationHost, FAILURES } from "./conversation-host.ts";

/** Writes replies to one client: whole lines, each under the tag of its request, and counted. */
export class Replies {
  readonly #host: ConversationHost;
  #isHushed = false;

  constructor(host: ConversationHost) {
    this.#host = host;
  }

  /** Stops all further output. */
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

  /** Answers a malformed request; `code` says what is wrong with it. */
  refuse(tag: string | undefined, code: number): void {
    this.#host.count({ type: "protocol_error", code });
    this.#host.debug("protocol_error", { code });
    this.say(tag, wireReply("error"));
  }

  /** Counts a failure that belongs to no request. It is answered in order or not at all. */
  failed(failure: keyof typeof FAILURES): void {
    this.#host.count({ type: "protocol_error", code: FAILURES[failure] });
  }
}
