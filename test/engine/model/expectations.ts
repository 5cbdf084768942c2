/** What follows from the model's state: rows that must be stored, notices that must be outstanding. */
import type { SlotRow, WaiterRow } from "../stored-engine.ts";
import type { KeyModel } from "./key-model.ts";
import { type Notice, openRequestOf, promotionOf } from "./types.ts";

export function expectedSlotRows({ holds }: KeyModel): Omit<SlotRow, "index" | "place">[] {
  return holds.map(({ isRecord, unanswered: _, ...row }) => ({ ...row, hasRecord: isRecord, isHeld: true }));
}

export function expectedWaiterRows({ holds, ended, queue }: KeyModel): Omit<WaiterRow, "place">[] {
  const promoted = holds.flatMap(({ unanswered }) => (unanswered ? [unanswered] : []));
  const ends = ended.map(({ waiter, outcome }) => ({ waiter, outcome: outcome === "timeout" ? undefined : outcome }));
  const others = [...queue, ...promoted].map((waiter) => ({ waiter, outcome: undefined }));
  return [...ends, ...others]
    .sort((a, b) => a.waiter.place - b.waiter.place)
    .map(({ waiter: { place: _, ...row }, outcome }) => ({ ...row, outcome }));
}

/** Notices that sessions have not answered yet. */
export function unansweredNotices({ holds, ended }: KeyModel): Notice[] {
  const ends = ended.map(({ waiter, outcome: kind }) => {
    return { session: waiter.session, request: openRequestOf(waiter), kind };
  });
  return [...ends, ...holds.filter(({ unanswered }) => unanswered).map(promotionOf)];
}

/** Whether `request` is an enqueue whose `wait` has taken over. */
export function isSuperseded({ holds, ended, queue }: KeyModel, request: string): boolean {
  const waiters = [...queue, ...ended.map(({ waiter }) => waiter)];
  for (const { unanswered } of holds) if (unanswered) waiters.push(unanswered);
  return waiters.some((waiter) => waiter.request === request && waiter.waitRequest !== undefined);
}

/** Waits on records that timed out unheard, while their session has a new record. */
export function outlivedRecords(model: KeyModel): { readonly request: string; readonly deadline: number }[] {
  return model.ended
    .filter(({ waiter, outcome }) => waiter.isEnqueued && outcome === "timeout" && model.hasRecord(waiter.session))
    .map(({ waiter }) => ({ request: openRequestOf(waiter), deadline: waiter.deadline }));
}
