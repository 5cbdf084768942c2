import type { Outcome } from "../../core/protocols/statuses.ts";

/** The answer to a request. */
export interface Answered<Answer = Outcome> {
  readonly type: "answered";
  readonly outcome: Answer;
}

/** The reply of a session, or of a key without one: the answer, or that the session does not exist (any longer). */
export type Reply<Answer = Outcome> = Answered<Answer> | { readonly type: "gone" };

/** How the Worker ends a poll: the answer reached the client, the client hung up, or the Worker goes on in a moment. */
export const POLL_CLOSE = { delivered: 1000, vanished: 4408, paused: 4409 } as const;

/** Header of the request for a listener's socket: the id of the claim it listens for. */
export const LISTENER_HEADER = "X-Holdfast-Request";
