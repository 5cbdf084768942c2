import type { Scope } from "../../auth/scope.ts";
import type { Outcome } from "../../protocols/statuses.ts";
import type { Loss } from "../calls/notices.ts";
import type { Moment } from "../pacing/shared-answers.ts";
import type { Turn } from "./backlog.ts";
import type { Rights } from "./rights.ts";
import type { Waiting } from "./running-requests.ts";

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

/** What a conversation needs from the object that hosts it. */
export interface ConversationHost {
  send(line: string): void;
  /** The conversation has ended: closes the connection and ends the session. */
  close(code: number): void;
  readonly session: string;
  /** The statistics visible to the client, as of a time after the moment `asked`. */
  stats(scope: Scope | undefined, asked: Moment): Promise<string>;
  /** One key in detail, as JSON, as of a time after the moment `asked`. */
  query(key: string, asked: Moment): Promise<string>;
  /** Makes the session outlive its socket: the credential to resume it and for how long; undefined if it cannot. */
  makeResumable(): { readonly credential: string; readonly graceSeconds: number } | undefined;
  /** Losses that a resumed client may not have been told of, oldest first. */
  recentLosses(): readonly Loss[];
  /** Records that a steal begins; false if the session has begun it before. */
  beginsSteal(tag: string): boolean;
  /** The client has authenticated. */
  authenticated(): void;
  /** Counts for the metrics. */
  count(happening: Happening): void;
  /** Something has happened outside a call from the host: state that must outlive memory may have changed. */
  progressed(): void;
  debug(event: string, fields: Record<string, unknown>): void;
  now(): number;
}

/** Events that the metrics count; codes as in the protocol's table of errors. */
export type Happening =
  | { readonly type: "answered"; readonly status: Outcome["status"] }
  | { readonly type: "protocol_error"; readonly code: number }
  | { readonly type: "auth_failed" };

/** Codes of failures that the request parser does not detect. */
export const FAILURES = { unknown: 3, deadline: 10, endOfInput: 11, tooLong: 12, tag: 14, backlog: 15 } as const;

/** `handshake`: the first frame must be `auth`. `greeted`: it may be, as none is required or the upgrade showed it. */
export type Phase = "handshake" | "greeted" | "open";

/** The client's state towards the service. */
export interface Standing {
  readonly phase: Phase;
  readonly rights: Rights;
  readonly openedAt: number;
  readonly isWatching: boolean;
  /** The session outlives its socket: a request is identified by its tag and may be repeated on another socket. */
  readonly isResumable: boolean;
  /** This is not the session's first socket. */
  readonly isResumed: boolean;
}

/** Everything that must outlive hibernation. Requests in flight are not part of it: they keep the object awake. */
export interface ConversationState extends Standing {
  readonly partial: Uint8Array;
  readonly midFrameSince: number;
  readonly turns: readonly Turn[];
  readonly waiting: readonly Waiting[];
}
