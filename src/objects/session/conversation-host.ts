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
  /** The client's: it gives this socket up and comes back on another. */
  parted: 4412,
  backlog: 4413,
} as const;

/** What a conversation needs from the object that hosts it. */
export interface ConversationHost {
  send(line: string): void;
  /** The conversation is over: closes the connection and ends the session. */
  close(code: number): void;
  /** The session's name. */
  readonly session: string;
  /** The statistics, as far as the client may see them and as they stood after the moment `asked`. */
  stats(scope: Scope | undefined, asked: Moment): Promise<string>;
  /** One key in detail, as JSON, as it stood after the moment `asked`. */
  query(key: string, asked: Moment): Promise<string>;
  /** Makes the session outlive its socket: what it is taken up by, and for how long; undefined if it cannot be. */
  makeResumable(): { readonly credential: string; readonly graceSeconds: number } | undefined;
  /** What a client that has resumed may not have heard of, oldest first. */
  recentLosses(): readonly Loss[];
  /** Notes that a steal begins; false if the session has begun it before. */
  beginsSteal(tag: string): boolean;
  /** The client has shown who it is. */
  authenticated(): void;
  /** Counts for the metrics. */
  count(happening: Happening): void;
  /** Something has happened outside a call from the host: what must outlive its memory may have changed. */
  progressed(): void;
  debug(event: string, fields: Record<string, unknown>): void;
  now(): number;
}

/** What the metrics of the service want to know of a conversation; codes as in the protocol's table of errors. */
export type Happening =
  | { readonly type: "answered"; readonly status: Outcome["status"] }
  | { readonly type: "protocol_error"; readonly code: number }
  | { readonly type: "auth_failed" };

/** Numbers of the failures that the parser of requests does not see. */
export const FAILURES = { unknown: 3, deadline: 10, endOfInput: 11, tooLong: 12, tag: 14, backlog: 15 } as const;

/** `handshake`: the first frame must be `auth`; `greeted`: it may be, nobody needs it or the upgrade has shown the token. */
export type Phase = "handshake" | "greeted" | "open";

/** How the client stands with the service. */
export interface Standing {
  readonly phase: Phase;
  readonly rights: Rights;
  readonly openedAt: number;
  readonly isWatching: boolean;
  /** The session outlives its socket: a request is known by its tag, and may be sent again on another one. */
  readonly isResumable: boolean;
  /** This is not the session's first socket. */
  readonly isResumed: boolean;
}

/** All that must outlive hibernation. Requests under way are not part of it: they keep the object awake. */
export interface ConversationState extends Standing {
  readonly partial: Uint8Array;
  readonly midFrameSince: number;
  readonly turns: readonly Turn[];
  readonly waiting: readonly Waiting[];
}
