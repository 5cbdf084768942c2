import type { Answer, Request, WaitLimits } from "../connection/calls.ts";
import type { Channel } from "../connection/channel.ts";
import type { ConnectionError, LossReason } from "../errors.ts";
import type { Lock } from "./lock.ts";
import type { StickyLocks } from "./sticky.ts";

/** A session; `end` is set once it is over. */
export interface SessionState {
  end?: ConnectionError;
}

/** What locks and tickets need of their client. */
export interface ClientContext
  extends Pick<Channel, "clock" | "isReady" | "isLapsed" | "problem" | "owner" | "suspect"> {
  /** Replaced when a new session begins. */
  readonly session: SessionState;
  /** The newest losses without a `Lock`, by token: grant and loss may arrive together, or a release is in flight. */
  readonly losses: ReadonlyMap<string, LossReason>;
  /** Locks that are kept between callbacks. */
  readonly kept: StickyLocks;
  ask(request: Request, limits?: WaitLimits): Promise<Answer>;
  /** Registers a lock that is held. */
  hold(lock: Lock): void;
  /** The lock was released or lost. */
  drop(lock: Lock): void;
}

/** More than any answer takes that does not wait for a lock. */
export const ANSWERED_WITHIN_MS = 10_000;

/** The key of a lock or a place in a queue. */
export interface LockTarget {
  readonly key: string;
  readonly limit: number;
}

/** Releases a token. Resolves with the answer, or with undefined if there will be none. */
export function releaseToken(
  client: Pick<ClientContext, "ask">,
  { key, limit }: LockTarget,
  token: string,
): Promise<Answer | undefined> {
  return client.ask({ command: "r", key, limit, arg: token, mustArrive: true }).catch(() => undefined);
}
