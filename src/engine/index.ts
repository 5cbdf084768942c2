export type { Changes } from "./changes.ts";
export { type Answer, KeyEngine } from "./engine.ts";
export { type Fence, FenceExhaustedError, fenceFromHex, fenceToHex } from "./fence.ts";
export { Slot, Waiter } from "./members.ts";
export type { EndReason, Observation } from "./observations.ts";
export type {
  ClaimCommand,
  ClaimOutcome,
  CurrentHold,
  HoldSelector,
  RefreshCommand,
  RefreshOutcome,
  RemoveOutcome,
  Which,
} from "./sessionless.ts";
export type { StoredKey } from "./state.ts";
export type * from "./types.ts";
