import type {
  AcquireCommand,
  AcquireOutcome,
  EnqueueCommand,
  EnqueueOutcome,
  PickUpOutcome,
  ReleaseOutcome,
  RenewOutcome,
  WaitCommand,
  WaitOutcome,
} from "../engine/index.ts";
import type { Request } from "../protocols/wire/requests.ts";

/** A request that concerns a key, in whatever protocol it was made. */
export type KeyRequest = Exclude<Extract<Request, { readonly key: string }>, { readonly type: "query" }>;

/** A call to a key. Calls of one session to one key arrive in the order in which they were made. */
export type KeyCall =
  | { readonly type: "acquire"; readonly command: AcquireCommand }
  | { readonly type: "enqueue"; readonly command: EnqueueCommand }
  | { readonly type: "wait"; readonly command: WaitCommand }
  | { readonly type: "release"; readonly token: string; readonly session: string }
  | { readonly type: "renew"; readonly token: string; readonly leaseSeconds: number }
  | { readonly type: "pickUp"; readonly request: string }
  | { readonly type: "cancel"; readonly request: string }
  | { readonly type: "leave"; readonly session: string; readonly keepsReported: boolean };

interface Outcomes {
  acquire: AcquireOutcome;
  enqueue: EnqueueOutcome;
  wait: WaitOutcome;
  release: ReleaseOutcome;
  renew: RenewOutcome;
  pickUp: PickUpOutcome;
  cancel: undefined;
  leave: undefined;
}

/** What a key answers to a call of this type. */
export type OutcomeOf<Type extends KeyCall["type"]> = Outcomes[Type];

export type KeyOutcome = Outcomes[keyof Outcomes];

/** Whether the request may leave something at its key that must be withdrawn if its client is not told. */
export const mayHold = ({ type }: Pick<KeyRequest, "type">): boolean => type !== "release" && type !== "renew";
