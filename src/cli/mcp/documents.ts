/** What the tools answer, as schemas and as words. */
import { z } from "zod";
import type { Holder, KeyReport, LossReason, Waiter } from "../../client/index.ts";
import { printable } from "../output/printable.ts";
import { fenceOf, nameOf } from "../service/keys.ts";
import type { HeldLock, Loss } from "./agent-locks.ts";
import { partsOf } from "./labels.ts";

const SINCE = z.string().describe("RFC 3339, UTC");
const WHO = {
  holder: z.string().describe("who it is"),
  reason: z.string().optional().describe("what for, if they said so"),
  since: SINCE,
  is_you: z.boolean().describe("this server holds it or waits for it, for you"),
};

export const HOLDER = z.object({
  ...WHO,
  held_s: z.number(),
  lease_expires_in_s: z.number().describe("seconds until it is free, unless its holder renews it"),
  fence: z.string().describe("a decimal number that rises with every grant of the key"),
});

export const WAITER = z.object({ ...WHO, position: z.number().describe("1 is next"), waited_s: z.number() });

export const LOST = z
  .array(z.object({ key: z.string(), reason: z.string(), at: SINCE }))
  .optional()
  .describe("locks that you held and have lost since your last call");

/** The fences and labels of this process, to find itself in a report. */
export interface Self {
  readonly fences: ReadonlySet<string>;
  readonly labels: ReadonlySet<string>;
}

export function holderDocument(holder: Holder, { fences }: Self): z.output<typeof HOLDER> {
  const { fence, since, held_s, lease_expires_in_s } = holder;
  const isYou = fences.has(fence);
  return { ...partsOf(nameOf(holder)), since, is_you: isYou, held_s, lease_expires_in_s, fence: fenceOf(fence) };
}

export function waiterDocument(waiter: Waiter, { labels }: Self): z.output<typeof WAITER> {
  const { position, since, waited_s } = waiter;
  const isYou = waiter.label !== undefined && labels.has(waiter.label);
  return { ...partsOf(nameOf(waiter)), since, is_you: isYou, position, waited_s };
}

export function lossDocument({ key, reason, at }: Loss) {
  return { key, reason, at: at.toISOString() };
}

const LOSSES: Readonly<Record<LossReason, string>> = {
  expired: "its lease ended, because this machine or process stood still for too long",
  stolen: "an administrator took it",
  released: "another client released it with its token",
  disconnected: "the server was out of reach for too long",
};

export function lossText({ key, reason, at }: Loss): string {
  const what = `LOST ${printable(key)} at ${at.toISOString()}: ${LOSSES[reason]}.`;
  return `${what} Another client may hold it now: stop work that relies on it, and acquire it again first.`;
}

/** `held by ada since 2026-11-19T06:04:18.000Z (125 s): adding a column`. */
export function holdersText({
  held_by: holders,
  limit,
  holders: count,
}: Pick<KeyReport, "held_by" | "limit" | "holders">) {
  if (count === 0) return "free";
  const named = holders.map((holder) => {
    const { holder: name, reason } = partsOf(nameOf(holder));
    const held = `${printable(name)} since ${holder.since} (${Math.round(holder.held_s)} s)`;
    return reason === undefined ? held : `${held}: ${printable(reason)}`;
  });
  return `held by ${named.join("; ")}${limit > 1 ? ` (${count} of ${limit} slots)` : ""}`;
}

/** `1. bob (waiting 12 s): a new index`. */
export function waiterText(waiter: Waiter): string {
  const { holder, reason } = partsOf(nameOf(waiter));
  const place = `${waiter.position}. ${printable(holder)} (waiting ${Math.round(waiter.waited_s)} s)`;
  return reason === undefined ? place : `${place}: ${printable(reason)}`;
}

export function waitingText(count: number): string {
  return count === 0 ? "nobody waits" : `${count} waiting`;
}

export function heldText({ lock, label, since }: HeldLock): string {
  const { reason } = partsOf(label);
  const held = `${printable(lock.key)} since ${since.toISOString()}`;
  return reason === undefined ? held : `${held}: ${printable(reason)}`;
}
