import type { KeyCommand, KeyCommandType, KeyOutcomeOf } from "../../core/engine/index.ts";
import type { KeyCall, ProlongOutcome } from "../../core/session/key-calls.ts";

/** What is asked of a key's object. */
export type KeyObjectCommand = KeyCommand | KeyCall;

export type KeyObjectCommandType = KeyObjectCommand["type"];

export type KeyObjectCommandOf<Type extends KeyObjectCommandType> = Extract<KeyObjectCommand, { readonly type: Type }>;

export type KeyObjectOutcomeOf<Type extends KeyObjectCommandType> = Type extends KeyCommandType
  ? KeyOutcomeOf<Type>
  : ProlongOutcome;

/** The outcome has a field of its own, so that others may be added. */
export interface KeyObjectAnswer {
  readonly outcome: KeyOutcomeOf<KeyCommandType> | ProlongOutcome;
}
