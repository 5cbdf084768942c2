/** What may happen to a key and its clients, and how to make it up at random. */
import fc from "fast-check";
import type { Quorum } from "../../../src/core/engine/index.ts";
import { type GroupStep, groupSteps } from "./group-steps.ts";

/** Chooses one of a list: 0 is the newest. */
export type Pick = number;

export function at<T>(list: readonly T[], pick: Pick): T | undefined {
  return list.length === 0 ? undefined : list[list.length - 1 - (pick % list.length)];
}

export type Delivery = "honest" | "gone" | "cut off" | "detached" | "answer lost" | "twice" | "lost";
export type Jump =
  | { readonly to: "later"; readonly ms: number }
  | { readonly to: "earlier"; readonly ms: number }
  /** To a deadline or lease end, give or take a millisecond. */
  | { readonly to: "deadline"; readonly pick: Pick; readonly off: number }
  | { readonly to: "wake" };

/** Any hold, the one with the fence of a token that was once known, or one with a mark. */
export type Selected = { readonly by: "any" } | { readonly by: "fence" | "mark"; readonly pick: Pick };

export type Step =
  | {
      readonly step: "acquire";
      readonly who: Pick;
      readonly otherLimit: number | undefined;
      readonly waitMs: number;
      readonly leaseSeconds: number;
      readonly mayWait: boolean;
      /** Only a lock can need one. */
      readonly quorum: Quorum | undefined;
      readonly asksWanted: boolean;
    }
  | {
      readonly step: "enqueue";
      readonly who: Pick;
      readonly otherLimit: number | undefined;
      readonly leaseSeconds: number;
    }
  | {
      readonly step: "wait";
      readonly who: Pick;
      readonly waitMs: number;
      readonly mayWait: boolean;
      readonly takesOver: boolean;
    }
  | {
      readonly step: "release" | "giveBack";
      readonly who: Pick;
      readonly token: Pick;
      readonly isOwn: boolean;
      /** The call has an id, and may be made again. */
      readonly isNamed: boolean;
    }
  /** The answer to a release or removal was lost. */
  | { readonly step: "endAgain"; readonly ending: Pick }
  /** The fence is that of a hold, or of a token that was once known. */
  | { readonly step: "steal"; readonly hold: Pick; readonly isHeld: boolean }
  | { readonly step: "renew"; readonly token: Pick; readonly leaseSeconds: number }
  /** By a holder without a session. There are few marks, so that some claims repeat. */
  | {
      readonly step: "claim";
      readonly kind: string;
      readonly mark: Pick;
      readonly waitMs: number;
      readonly leaseSeconds: number;
      /** It asks for the key as it is, lock or semaphore, and names no mark. */
      readonly isOfWorker: boolean;
      readonly mayWait: boolean;
    }
  | {
      readonly step: "refresh";
      readonly kind: string;
      readonly which: Selected;
      readonly leaseSeconds: number | undefined;
    }
  | { readonly step: "remove"; readonly kind: string; readonly which: Selected; readonly isNamed: boolean }
  | { readonly step: "misuse"; readonly who: Pick; readonly token: Pick }
  | {
      readonly step: "cancel";
      readonly request: Pick;
      readonly isHead: boolean;
      readonly sparesKnown: boolean;
      readonly sparesPlace: boolean;
    }
  | { readonly step: "forgo"; readonly who: Pick; readonly sparesKnown: boolean }
  | { readonly step: "repeat"; readonly request: Pick }
  | { readonly step: "leave"; readonly who: Pick; readonly keepsReported: boolean }
  | { readonly step: "jump"; readonly jump: Jump }
  | { readonly step: "tick" }
  | { readonly step: "deliver"; readonly notice: Pick; readonly how: Delivery }
  | { readonly step: "reload"; readonly losesNotices: boolean }
  | { readonly step: "prune"; readonly limit: number }
  | GroupStep;

const pick = fc.nat(11);
/** Mostly the newest: that is where the races are. */
const recent = fc.oneof({ weight: 3, arbitrary: fc.nat(2) }, { weight: 1, arbitrary: fc.nat(30) });
const who = fc.nat(3);
const leaseSeconds = fc.constantFrom(1, 2, 3, 5, 33, 3_600);
const waitMs = fc.constantFrom(0, 1_000, 1_000, 2_000, 3_000, 10_000, 3_000_000_000);
const mostly = fc.oneof({ weight: 9, arbitrary: fc.constant(true) }, { weight: 1, arbitrary: fc.constant(false) });
const seldom = fc.constantFrom(false, false, true);
const otherLimit = fc.oneof(
  { weight: 9, arbitrary: fc.constant(undefined) },
  { weight: 1, arbitrary: fc.integer({ min: 1, max: 4 }) },
);
const quorum = fc.constantFrom(undefined, undefined, "once", "until_agreed");
const how = fc.constantFrom(
  ...(["honest", "honest", "honest", "gone", "cut off", "detached", "answer lost", "twice", "lost"] as const),
);
const kind = fc.constantFrom("file", "file", "terraform");
const which = fc.oneof(
  fc.constant({ by: "any" }),
  fc.record({ by: fc.constantFrom("fence", "mark"), pick: recent }),
) as fc.Arbitrary<Selected>;
const jump = fc.oneof(
  { weight: 4, arbitrary: fc.record({ to: fc.constant("later"), ms: fc.integer({ min: 1, max: 2_500 }) }) },
  { weight: 1, arbitrary: fc.record({ to: fc.constant("later"), ms: fc.constantFrom(61_000, 90_000_000) }) },
  { weight: 1, arbitrary: fc.record({ to: fc.constant("earlier"), ms: fc.constantFrom(1, 500, 1_500, 3_600_000) }) },
  { weight: 5, arbitrary: fc.record({ to: fc.constant("deadline"), pick, off: fc.constantFrom(-1, 0, 0, 1) }) },
  { weight: 3, arbitrary: fc.record({ to: fc.constant("wake") }) },
);
const steps: fc.Arbitrary<Step> = fc.oneof(
  {
    weight: 22,
    arbitrary: fc.record({
      step: fc.constant("acquire"),
      who,
      otherLimit,
      waitMs,
      leaseSeconds,
      mayWait: mostly,
      quorum,
      asksWanted: fc.boolean(),
    }),
  },
  { weight: 9, arbitrary: fc.record({ step: fc.constant("enqueue"), who, otherLimit, leaseSeconds }) },
  {
    weight: 9,
    arbitrary: fc.record({ step: fc.constant("wait"), who, waitMs, mayWait: mostly, takesOver: seldom }),
  },
  {
    weight: 10,
    arbitrary: fc.record({
      step: fc.constantFrom("release" as const, "giveBack" as const),
      who,
      token: recent,
      isOwn: mostly,
      isNamed: fc.boolean(),
    }),
  },
  { weight: 4, arbitrary: fc.record({ step: fc.constant("endAgain"), ending: fc.nat(3) }) },
  { weight: 3, arbitrary: fc.record({ step: fc.constant("steal"), hold: recent, isHeld: mostly }) },
  { weight: 4, arbitrary: fc.record({ step: fc.constant("renew"), token: recent, leaseSeconds }) },
  {
    weight: 12,
    arbitrary: fc.record({
      step: fc.constant("claim"),
      kind,
      mark: fc.nat(2),
      waitMs,
      leaseSeconds,
      isOfWorker: fc.boolean(),
      mayWait: mostly,
    }),
  },
  {
    weight: 3,
    arbitrary: fc.record({
      step: fc.constant("refresh"),
      kind,
      which,
      leaseSeconds: fc.option(leaseSeconds, { nil: undefined }),
    }),
  },
  { weight: 6, arbitrary: fc.record({ step: fc.constant("remove"), kind, which, isNamed: fc.boolean() }) },
  { weight: 1, arbitrary: fc.record({ step: fc.constant("misuse"), who, token: recent }) },
  {
    weight: 4,
    arbitrary: fc.record({
      step: fc.constant("cancel"),
      request: recent,
      isHead: seldom,
      sparesKnown: fc.boolean(),
      sparesPlace: fc.boolean(),
    }),
  },
  { weight: 3, arbitrary: fc.record({ step: fc.constant("forgo"), who, sparesKnown: fc.boolean() }) },
  { weight: 2, arbitrary: fc.record({ step: fc.constant("repeat"), request: recent }) },
  { weight: 3, arbitrary: fc.record({ step: fc.constant("leave"), who, keepsReported: fc.boolean() }) },
  { weight: 14, arbitrary: fc.record({ step: fc.constant("jump"), jump }) },
  { weight: 2, arbitrary: fc.record({ step: fc.constant("tick") }) },
  { weight: 14, arbitrary: fc.record({ step: fc.constant("deliver"), notice: pick, how }) },
  { weight: 6, arbitrary: fc.record({ step: fc.constant("reload"), losesNotices: fc.boolean() }) },
  { weight: 2, arbitrary: fc.record({ step: fc.constant("prune"), limit: fc.integer({ min: 1, max: 4 }) }) },
  ...groupSteps,
) as fc.Arbitrary<Step>;

/** A whole history of one key: its limit, its rules, and the steps. */
export const history = fc.record({
  limit: fc.constantFrom(1, 1, 2, 3),
  rules: fc.record({
    maxWaiters: fc.constantFrom(0, 0, 2),
    gcMaxIdleMs: fc.constantFrom(60_000, 60_000, 2_000, 0),
    fenceFloor: fc.constantFrom(0n, 0n, 2n ** 62n),
  }),
  steps: fc.array(steps, { minLength: 1, maxLength: 70, size: "max" }),
});
