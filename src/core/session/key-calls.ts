import type { Granted, KeyCommandOf, KeyOutcomeOf, Quorum, Refusal } from "../engine/index.ts";
import type { Outcome } from "../protocols/statuses.ts";
import type { Request } from "../protocols/wire/requests.ts";

/** A request that concerns a key, in whatever protocol it was made. */
export type KeyRequest = Exclude<Extract<Request, { readonly key: string }>, { readonly type: "query" }>;

/** What a session asks of keys as it is. */
type Plain =
  | "acquire"
  | "enqueue"
  | "wait"
  | "release"
  | "renew"
  | "fenceOfHolder"
  | "pickUp"
  | "cancel"
  | "watch"
  | "leave";

/** Like `renew`, for a hold that other deployments have agreed to: its host asks them between two commands to the key. */
interface ProlongCall {
  readonly type: "prolong";
  readonly token: string;
  readonly session: string;
  readonly leaseMs: number;
}

/** A call to a key. Calls of one session to one key arrive in the order in which they were made. */
export type KeyCall = KeyCommandOf<Plain> | ProlongCall;

/** `kept`: the hold is as it was, because too few deployments would keep it for longer. */
export type ProlongOutcome = Refusal<"prolonged" | "kept" | "not_held">;

type Outcomes = { [Type in Plain]: KeyOutcomeOf<Type> } & { prolong: ProlongOutcome };

/** What a key answers to a call of this type. */
export type OutcomeOf<Type extends KeyCall["type"]> = Outcomes[Type];

export type KeyOutcome = Outcomes[keyof Outcomes];

/** What a client is told of its grant. */
export function answerOf({ token, leaseSeconds, isWanted }: Omit<Granted, "status">): Outcome {
  return { status: "ok", token, leaseSeconds, ...(isWanted && { isWanted }) };
}

/** Whether the request may leave something at its key that must be withdrawn if its client is not told. */
export const mayHold = ({ type }: Pick<KeyRequest, "type">): boolean => type !== "release" && type !== "renew";

export interface Circumstances {
  /** False when the client has ended its input: it only gets what can be answered immediately. */
  readonly mayWait: boolean;
  /** An earlier `wait` on the key, if there is one, has lost its client: this one takes over its place. */
  readonly takesOver?: boolean;
  /** A steal was already started under this id: it is not repeated, only its outcome is fetched. */
  readonly hasBegun?: boolean;
  /** Other deployments have to agree. */
  readonly quorum?: Quorum;
  /** The client hears at once when the lease ends. */
  readonly isWatched?: boolean;
}

/** Who makes a request. */
interface Maker {
  readonly session: string;
  readonly id: string;
  readonly defaultLeaseSeconds: number;
  /** The place of an earlier `wait` is still this one's to take over. */
  readonly takesOver: boolean;
}

/** The call that carries out a request. */
export function callOf(request: KeyRequest, maker: Maker, circumstances: Circumstances): KeyCall {
  const { session, id, defaultLeaseSeconds, takesOver } = maker;
  const { mayWait, quorum } = circumstances;
  const watch = circumstances.isWatched ? ({ isWatched: true } as const) : {};
  const leaseSeconds = ("leaseSeconds" in request ? request.leaseSeconds : undefined) ?? defaultLeaseSeconds;
  switch (request.type) {
    case "acquire": {
      const { limit, waitSeconds, steals, asksWanted } = request;
      const asked = { session, request: id, limit, leaseSeconds, waitMs: waitSeconds * 1000, mayWait, ...watch };
      const command = { ...asked, ...(quorum && { quorum }), ...(asksWanted && { asksWanted }) };
      return { type: "acquire", command: steals ? { ...command, steals } : command };
    }
    case "enqueue":
      return { type: "enqueue", command: { session, request: id, limit: request.limit, leaseSeconds, ...watch } };
    case "wait": {
      const command = { session, request: id, waitMs: request.waitSeconds * 1000, mayWait };
      return { type: "wait", command: takesOver ? { ...command, takesOver } : command };
    }
    case "release":
      return { type: "release", token: request.token, session, id };
    case "renew":
      return { type: "renew", token: request.token, leaseSeconds, ...watch };
  }
}
