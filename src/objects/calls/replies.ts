import type { Outcome } from "../../protocols/statuses.ts";

/** The answer to a request. */
export interface Answered<Answer = Outcome> {
  readonly type: "answered";
  readonly outcome: Answer;
}

/** What a session, or a key without one, says to a request: the answer, or that there is no such session, or no more. */
export type Reply<Answer = Outcome> = Answered<Answer> | { readonly type: "gone" };

/** How the Worker ends a poll: it has given the answer to its client, or its client has hung up. */
export const POLL_CLOSE = { delivered: 1000, vanished: 4408 } as const;

/** On the request for a listener's socket: the id of the claim that it listens for. */
export const LISTENER_HEADER = "X-Holdfast-Request";
