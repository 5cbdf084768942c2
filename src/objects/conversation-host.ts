import type { Outcome } from "../protocols/statuses.ts";
import type { Scope } from "../scope.ts";
import type { Turn } from "./backlog.ts";
import type { Waiting } from "./running.ts";

/** WebSocket close codes of the protocol. */
export const CLOSE = { done: 1000, tooLong: 1009, auth: 4401, deadline: 4408, backlog: 4413 } as const;

/** What a conversation needs from the object that hosts it. */
export interface Host {
  send(line: string): void;
  /** The conversation is over: closes the connection and ends the session. */
  close(code: number): void;
  /** The statistics, as far as the client may see them. */
  stats(scope: Scope | undefined): Promise<string>;
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

/** `handshake`: the first frame must be `auth`; `greeted`: it may be, the upgrade has shown the token already. */
export type Phase = "handshake" | "greeted" | "open";

/** All that must outlive hibernation. Requests under way are not part of it: they keep the object awake. */
export interface ConversationState {
  readonly phase: Phase;
  /** What a ticket allows; undefined = everything. */
  readonly scope: Scope | undefined;
  readonly openedAt: number;
  readonly isWatching: boolean;
  readonly partial: Uint8Array;
  readonly midFrameSince: number;
  readonly turns: readonly Turn[];
  readonly waiting: readonly Waiting[];
}
