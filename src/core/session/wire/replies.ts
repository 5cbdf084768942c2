import { type Outcome, wireReply, wireReplyOf } from "../../protocols/statuses.ts";
import type { SessionContext } from "../context.ts";
import type { Loss } from "../effects.ts";
import type { TrackedRequest } from "../request-table.ts";
import { FAILURES } from "./protocol.ts";

/** Writes replies to one client: whole lines, each under the tag of its request, and counted. */
export class Replies {
  readonly #context: SessionContext;
  #isStopped = false;

  constructor(context: SessionContext) {
    this.#context = context;
  }

  /** Stops all further output. */
  stop(): void {
    this.#isStopped = true;
  }

  say(tag: string | undefined, line: string): void {
    if (!this.#isStopped) this.#context.emit({ type: "send", line: tagged(tag, line) });
  }

  ok(tag: string | undefined): void {
    this.say(tag, wireReply("ok"));
  }

  /** `key` is what the request is about, `renews` the token that it renews. */
  answer(
    tag: string | undefined,
    outcome: Outcome,
    { key, renews }: Pick<Partial<TrackedRequest>, "key" | "renews"> = {},
  ): void {
    const { status, leaseSeconds } = outcome;
    const token = outcome.token ?? (leaseSeconds === undefined ? undefined : renews);
    this.#context.emit({ type: "count", happening: { type: "answered", status } });
    if (key === undefined || token === undefined || this.#isStopped) this.say(tag, wireReplyOf(outcome));
    else {
      const grant = { key, token, lateLine: tagged(tag, wireReply(outcome.token ? "lease_expired" : "not_held")) };
      this.#context.emit({ type: "send", line: tagged(tag, wireReplyOf(outcome)), grant });
    }
  }

  /** Answers a malformed request; `code` says what is wrong with it. */
  refuse(tag: string | undefined, code: number): void {
    this.#context.emit({ type: "count", happening: { type: "protocol_error", code } });
    this.#context.emit({ type: "log", level: "debug", event: "protocol_error", fields: { code } });
    this.say(tag, wireReply("error"));
  }

  /** Counts a failure that belongs to no request. It is answered in order or not at all. */
  failed(failure: keyof typeof FAILURES): void {
    this.#context.emit({ type: "count", happening: { type: "protocol_error", code: FAILURES[failure] } });
  }

  lost({ key, token, reason }: Loss): void {
    this.say(undefined, `! lost ${key} ${token} ${reason}`);
  }
}

function tagged(tag: string | undefined, line: string): string {
  return tag === undefined ? `${line}\n` : `@${tag} ${line}\n`;
}
