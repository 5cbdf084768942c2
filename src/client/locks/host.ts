import type { Answer, Patience, Request } from "../connection/calls.ts";
import type { Channel } from "../connection/channel.ts";
import type { ConnectionError, LossReason } from "../errors.ts";
import type { Lock } from "./lock.ts";
import type { Stays } from "./sticky.ts";

/** Whether a session is over, and why. */
export interface SessionFate {
  end?: ConnectionError;
}

/** What locks and tickets need of the client they belong to. */
export interface Host extends Pick<Channel, "clock" | "isReady" | "isLapsed" | "problem" | "owner" | "suspect"> {
  /** Another one in another session. */
  readonly session: SessionFate;
  /** The newest losses of locks that are not made yet, since grant and loss may be read in one go, or are being given back; by token. */
  readonly losses: ReadonlyMap<string, LossReason>;
  /** What is kept between callbacks. */
  readonly stays: Stays;
  ask(request: Request, patience?: Patience): Promise<Answer>;
  /** The lock is to be looked after from here on. */
  hold(lock: Lock): void;
  /** The lock is over, one way or the other. */
  drop(lock: Lock): void;
}

/** Longer than an answer ever takes that does not wait for a lock. */
export const ANSWERED_WITHIN_MS = 10_000;

/** Where a hold or a place is. */
export interface LockTarget {
  readonly key: string;
  readonly limit: number;
}

/** Gives a hold back. Resolves with what the service says to it, or with nothing if that will never be known. */
export function giveBack(
  host: Pick<Host, "ask">,
  { key, limit }: LockTarget,
  token: string,
): Promise<Answer | undefined> {
  return host.ask({ command: "r", key, limit, arg: token, mustArrive: true }).catch(() => undefined);
}
