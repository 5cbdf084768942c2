import type {
  AcquireCommand,
  AcquireOutcome,
  CancelOptions,
  EnqueueCommand,
  EnqueueOutcome,
  Granted,
  PickUpOutcome,
  Quorum,
  Refusal,
  ReleaseOutcome,
  RenewOutcome,
  WaitCommand,
  WaitOutcome,
} from "../engine/index.ts";
import type { Outcome } from "../protocols/statuses.ts";
import type { Request } from "../protocols/wire/requests.ts";

/** A request that concerns a key, in whatever protocol it was made. */
export type KeyRequest = Exclude<Extract<Request, { readonly key: string }>, { readonly type: "query" }>;

/** A call to a key. Calls of one session to one key arrive in the order in which they were made. */
export type KeyCall =
  | { readonly type: "acquire"; readonly command: AcquireCommand }
  | { readonly type: "enqueue"; readonly command: EnqueueCommand }
  | { readonly type: "wait"; readonly command: WaitCommand }
  /** `id`: the same if the call is made again. */
  | { readonly type: "release"; readonly token: string; readonly session: string; readonly id: string }
  /** `isWatched`: the session wants to hear at once when the lease ends. */
  | { readonly type: "renew"; readonly token: string; readonly leaseSeconds: number; readonly isWatched?: true }
  /** Like `renew`, for a hold that other deployments have agreed to. */
  | { readonly type: "prolong"; readonly token: string; readonly session: string; readonly leaseMs: number }
  | { readonly type: "fenceOfHolder" }
  | { readonly type: "pickUp"; readonly request: string }
  | ({ readonly type: "cancel"; readonly request: string } & CancelOptions)
  /** The session wants to hear at once when a lease of its own ends. */
  | { readonly type: "watch"; readonly session: string }
  | { readonly type: "leave"; readonly session: string; readonly keepsReported: boolean };

/** `kept`: the hold is as it was, because too few deployments would keep it for longer. */
export type ProlongOutcome = Refusal<"prolonged" | "kept" | "not_held">;

/** The highest fence of those that have the lock, 0 if it is not known here. */
export type FenceOutcome = { readonly status: "held"; readonly fence: bigint } | Refusal<"free">;

interface Outcomes {
  acquire: AcquireOutcome;
  enqueue: EnqueueOutcome;
  wait: WaitOutcome;
  release: ReleaseOutcome;
  renew: RenewOutcome;
  prolong: ProlongOutcome;
  fenceOfHolder: FenceOutcome;
  pickUp: PickUpOutcome;
  cancel: undefined;
  watch: undefined;
  leave: undefined;
}

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
}

/** The call that carries out a request. */
export function callOf(request: KeyRequest, maker: Maker, circumstances: Circumstances): KeyCall {
  const { session, id, defaultLeaseSeconds } = maker;
  const { mayWait, takesOver, quorum } = circumstances;
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
