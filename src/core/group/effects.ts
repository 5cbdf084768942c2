import type { RoundEnd, RoundOf } from "../engine/index.ts";
import type { RelayRequest } from "../protocols/godistlock/relay.ts";

export type Question = Extract<RelayRequest, { type: "prop" | "sched" | "comm" | "off" }>;

/** One round for a request that is at the head of its key's queue. */
export interface Turn extends RoundOf {
  readonly lock: string;
}

/** What the relay wants done. Calls to the key are answered with `kept`, `fenced` and `agreed`. */
export type RelayEffect =
  | { readonly type: "send"; readonly peer: string; readonly question: Question }
  | ({ readonly type: "keep" } & Turn)
  | ({ readonly type: "fence"; readonly floor: bigint } & Turn)
  | ({ readonly type: "agree" } & Turn)
  | ({ readonly type: "fail"; readonly end: RoundEnd } & Turn)
  | { readonly type: "prolonged"; readonly call: string; readonly isAgreed: boolean };
