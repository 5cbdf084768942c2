import type { Outcome } from "../../protocols/statuses.ts";

/** What the Worker is told: the answer to the request, or that its session has ended. */
export type PollNews<Answer = Outcome> =
  | { readonly type: "answer"; readonly outcome: Answer }
  | { readonly type: "gone" };

/** How the Worker ends a poll: it has given the answer to its client, or its client has hung up. */
export const POLL_CLOSE = { delivered: 1000, vanished: 4408 } as const;

/** On the request for a listener's socket: the id of the claim that it listens for. */
export const LISTENER_HEADER = "X-Holdfast-Request";
