export type * from "./commands.ts";
export { KeyEngine } from "./engine.ts";
export {
  type Fence,
  FenceExhaustedError,
  fenceBefore,
  fenceFromHex,
  fenceToHex,
  nextFence,
  timeOfFence,
} from "./fence.ts";
export type {
  EndReason,
  KeyEvent,
  LossReason,
  NoticeAnswer,
  NoticeEvent,
  NoticeKind,
  Observation,
  Offer,
  RoundEvent,
} from "./output.ts";
export {
  type AgreedHold,
  type CreationRefusal,
  type FenceOutcome,
  type KeyCommand,
  type KeyCommandOf,
  type KeyCommandType,
  type KeyOutcomeOf,
  limitIfNew,
  outcomeWithoutKey,
  perform,
  type RoundStep,
} from "./perform.ts";
export type { RelayAnswer, RelayQuestion } from "./relay-holds.ts";
export type { RoundEnd, RoundOf } from "./rounds.ts";
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
export { type Round, Slot } from "./slots.ts";
export type { Changes, StoredKey } from "./storage.ts";
export type { HolderView, KeyView, ReportedHold, WaiterView } from "./views.ts";
export { Waiter } from "./waiters.ts";
