/** What follows from the model's state: rows that must be stored, notices that must be outstanding. */
import type { SlotRow, WaiterRow } from "../stored-engine.ts";
import type { KeyModel } from "./key-model.ts";
import { endNoticeOf, isInRound, type Notice, openRequestOf, promotionOf } from "./types.ts";

export function expectedSlotRows({ holds }: KeyModel): Omit<SlotRow, "index" | "place">[] {
  return holds.map(
    ({ isRecord, unanswered: _, offeredTo: __, isWanted: ___, isWantedByPeer: ____, stored, ...hold }) => {
      const { round, asksWanted, wasKnown, ...row } = hold;
      const unconfirmed = stored && { ...stored, isReported: false };
      const flags = { ...(round && { round }), ...(asksWanted && { asksWanted }), ...(wasKnown && { wasKnown }) };
      return { ...row, ...unconfirmed, hasRecord: isRecord, isHeld: true, ...flags };
    },
  );
}

export function expectedWaiterRows({ holds, ended, queue }: KeyModel): Omit<WaiterRow, "place">[] {
  const promoted = holds.flatMap(({ unanswered, isOffered }) => (unanswered && !isOffered ? [unanswered] : []));
  const ends = ended.map(({ waiter, outcome }) => ({
    waiter,
    outcome: outcome === "lease_expired" ? outcome : undefined,
  }));
  const others = [...queue, ...promoted].map((waiter) => ({ waiter, outcome: undefined }));
  return [...ends, ...others]
    .sort((a, b) => a.waiter.place - b.waiter.place)
    .map(({ waiter: { place: _, pausedUntil: __, quorum, asksWanted, ...row }, outcome }) => {
      return { ...row, outcome, ...(quorum && { quorum }), ...(asksWanted && { asksWanted }) };
    });
}

/** Notices that sessions have not answered yet. */
export function unansweredNotices({ holds, ended }: KeyModel): Notice[] {
  const promotions = holds.filter((hold) => hold.unanswered && !isInRound(hold)).map(promotionOf);
  return [...ended.map(endNoticeOf), ...promotions];
}

/** The request of whoever waits first. */
export function headOf({ queue }: KeyModel): string | undefined {
  return queue[0] && openRequestOf(queue[0]);
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
