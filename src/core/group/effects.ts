import type { RoundEnd, RoundOf } from "../engine/index.ts";
import type { RelayRequest } from "../protocols/godistlock/relay.ts";

export type Question = Extract<RelayRequest, { type: "prop" | "sched" | "comm" | "off" }>;

/** Names a round among those of all keys. */
export interface RoundId extends RoundOf {
  readonly lock: string;
}

/** What the relay wants done. Calls to the key are answered with `kept`, `fenced` and `agreed`. */
export type RelayEffect =
  | { readonly type: "send"; readonly peer: string; readonly question: Question }
  | ({ readonly type: "keep" } & RoundId)
  | ({ readonly type: "fence"; readonly floor: bigint } & RoundId)
  | ({ readonly type: "agree" } & RoundId)
  | ({ readonly type: "fail"; readonly end: RoundEnd } & RoundId)
  | { readonly type: "prolonged"; readonly call: string; readonly isAgreed: boolean };
