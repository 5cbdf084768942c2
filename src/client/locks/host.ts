import type { Clock } from "../clock.ts";
import type { Answer, Patience, Request } from "../connection/calls.ts";
import type { ConnectionError, LossReason } from "../errors.ts";
import type { Lock } from "./lock.ts";

/** Whether a session is over, and why. */
export interface SessionFate {
  end?: ConnectionError;
}

/** What locks and tickets need of the client they belong to. */
export interface Host {
  readonly clock: Clock;
  readonly isConnected: boolean;
  /** The connection is lost for so long that the service may have given everything away. */
  readonly isLapsed: boolean;
  /** Why there is, or was, no connection. */
  readonly problem: unknown;
  /** By which number reports name the session; undefined where the service does not tell. */
  readonly owner: number | undefined;
  /** Another one in another session. */
  readonly session: SessionFate;
  /** The newest losses of locks that are not made yet, since grant and loss may be read in one go, or are being given back; by token. */
  readonly losses: ReadonlyMap<string, LossReason>;
  ask(request: Request, patience?: Patience): Promise<Answer>;
  /** An answer is long overdue. */
  suspect(): void;
  /** The lock is to be looked after from here on. */
  hold(lock: Lock): void;
  /** The lock is over, one way or the other. */
  drop(lock: Lock): void;
}

/** Longer than an answer ever takes that does not wait for a lock. */
export const ANSWERED_WITHIN_MS = 10_000;

/** Where a hold or a place is. */
export interface Place {
  readonly key: string;
  readonly limit: number;
}

/** Gives a hold back. Resolves with what the service says to it, or with nothing if that will never be known. */
export function giveBack(host: Pick<Host, "ask">, { key, limit }: Place, token: string): Promise<Answer | undefined> {
  return host.ask({ command: "r", key, limit, arg: token, mustArrive: true }).catch(() => undefined);
}
