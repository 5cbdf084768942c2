import type { Waiting } from "../request-table.ts";
import type { Rights } from "../rights.ts";
import type { BacklogEntry } from "./backlog.ts";

/** WebSocket close codes of the protocol. */
export const CLOSE = {
  done: 1000,
  tooLong: 1009,
  auth: 4401,
  deadline: 4408,
  inUse: 4409,
  gone: 4410,
  replaced: 4411,
  /** Sent by the client: it gives up this socket and will resume on another. */
  parted: 4412,
  backlog: 4413,
} as const;

/** Codes of failures that the request parser does not detect. */
export const FAILURES = { unknown: 3, deadline: 10, endOfInput: 11, tooLong: 12, tag: 14, backlog: 15 } as const;

/** `handshake`: the first frame must be `auth`. `greeted`: it may be, as none is required or the upgrade showed it. */
export type Phase = "handshake" | "greeted" | "open";

/** The client's state towards the service. */
export interface ClientState {
  readonly phase: Phase;
  readonly rights: Rights;
  readonly openedAt: number;
  readonly isWatching: boolean;
  /** The session outlives its socket: a request is identified by its tag and may be repeated on another socket. */
  readonly isResumable: boolean;
  /** This is not the session's first socket. */
  readonly isResumed: boolean;
}

/** The client hears of the end of a lease at once, or, if it is away then, when it is back. */
export const isWatched = ({ isWatching, isResumable }: ClientState): boolean => isWatching || isResumable;

/** The shape of `ConversationState`. State of another version counts as a lost socket. */
export const STATE_VERSION = 1;

/** Everything that must outlive hibernation. Requests in flight are not part of it: they keep the object awake. */
export interface ConversationState extends ClientState {
  readonly version: typeof STATE_VERSION;
  readonly partial: Uint8Array;
  readonly midFrameSince: number;
  /** The backlog. Stored under this name. */
  readonly turns: readonly BacklogEntry[];
  readonly waiting: readonly Waiting[];
}
