/** What may happen to a key of a deployment that is one of a group, at random. */
import fc from "fast-check";
import type { Pick } from "./steps.ts";

export type GroupStep =
  /** By the relay of this deployment, about the newest round or an earlier one. `win` is the whole of a quick round. */
  | {
      readonly step: "round";
      readonly of: Pick;
      readonly what: "keep" | "fence" | "agree" | "win" | "fail";
      /** Above or below the highest fence of the key. */
      readonly floor: number;
      readonly pauseMs: number;
    }
  /** By the relay of another deployment. */
  | {
      readonly step: "relay";
      readonly relay: Pick;
      readonly what: "propose" | "schedule" | "commit" | "off" | "withdraw";
      readonly order: "none" | "next" | "overtaken";
      readonly leaseMs: number;
      /** Above or below the highest fence of the key; undefined if the relay does not say. */
      readonly fence: number | undefined;
    }
  | { readonly step: "prolong"; readonly token: Pick; readonly leaseMs: number; readonly lagMs: number }
  | { readonly step: "fenceOfHolder" };

/** Mostly the newest. */
const of = fc.constantFrom(0, 0, 0, 0, 0, 1, 2, 9);
const leaseMs = fc.constantFrom(1, 700, 2_000, 5_000, 3_600_000);

export const groupSteps = [
  {
    weight: 20,
    arbitrary: fc.record({
      step: fc.constant("round"),
      of,
      what: fc.constantFrom("keep", "fence", "agree", "win", "win", "fail", "fail"),
      floor: fc.constantFrom(-5, 0, 7),
      pauseMs: fc.constantFrom(0, 100, 1_500, 9_000),
    }),
  },
  {
    weight: 20,
    arbitrary: fc.record({
      step: fc.constant("relay"),
      relay: fc.constantFrom(0, 0, 1),
      what: fc.constantFrom("propose", "propose", "schedule", "commit", "commit", "commit", "off", "withdraw"),
      order: fc.constantFrom("none", "next", "next", "next", "overtaken"),
      leaseMs,
      fence: fc.constantFrom(undefined, -1, 0, 1, 7),
    }),
  },
  {
    weight: 3,
    arbitrary: fc.record({
      step: fc.constant("prolong"),
      token: fc.constantFrom(0, 0, 0, 1),
      leaseMs,
      lagMs: fc.constantFrom(0, 20, 900),
    }),
  },
  { weight: 1, arbitrary: fc.record({ step: fc.constant("fenceOfHolder") }) },
];
