import type { Watched } from "../../protocols/wire/requests.ts";
import type { Loss } from "../effects.ts";
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
  /** Which of its losses the client is told. */
  readonly watches: Watched | "nothing";
  /** The session outlives its socket: a request is identified by its tag and may be repeated on another socket. */
  readonly isResumable: boolean;
  /** This is not the session's first socket. */
  readonly isResumed: boolean;
}

/** A key tells the session at once when a lease ends. Any other loss is told anyway. */
export const isWatched = ({ watches }: ClientState): boolean => watches === "lost";

/** Whether the client asked to be told of such a loss. */
export function isTold({ watches }: ClientState, { reason }: Loss): boolean {
  return watches === "lost" || (watches === "taken" && reason !== "expired");
}

/** The shape of `ConversationState`. State of another version counts as a lost socket. */
export const STATE_VERSION = 2;

/** Everything that must outlive hibernation. Requests in flight are not part of it: they keep the object awake. */
export interface ConversationState extends ClientState {
  readonly version: typeof STATE_VERSION;
  readonly partial: Uint8Array;
  readonly midFrameSince: number;
  /** The backlog. Stored under this name. */
  readonly turns: readonly BacklogEntry[];
  readonly waiting: readonly Waiting[];
}
