import type { KeyRequest } from "../../core/session/key-calls.ts";
import type { Reply } from "../calls/replies.ts";

/** A request of an HTTP client, with the client's label. */
export interface Ask {
  /** Unique; used to poll for the request and to withdraw it. */
  readonly id: string;
  readonly request: KeyRequest;
  readonly label?: string | undefined;
  /** What the client has released at its keys since the last request. */
  readonly released?: readonly Released[];
}

/** The client of a new session. */
export interface NewSession {
  readonly address: string;
  readonly label?: string | undefined;
}

export interface SignOfLife {
  /** What the client has released at its keys since the last request. */
  readonly released?: readonly Released[] | undefined;
}

export interface Withdrawal {
  readonly key: string;
  /** Of the request. */
  readonly id: string;
  /** Its client has hung up. */
  readonly hasLeft?: boolean;
}

/** A hold that the client has released at its key. */
export interface Released {
  readonly key: string;
  readonly token: string;
}

/** The reply to a request, or that its client has to poll: it waits, and not only for a moment. */
export type Performed = Reply | { readonly type: "waits" };

/** Header of a poll: the id of the request that waits. */
export const POLL_HEADER = "X-Holdfast-Poll";

/** The reply to a poll that needs no socket. `lost`: nothing is known of the request. */
export type Polled = Reply | { readonly type: "lost" };
