import { fenceFromHex, fenceToHex, type KeyEngine, type Slot, type StoredKey, type Waiter } from "../engine/index.ts";
import { slotRow } from "./compact-record.ts";
import { type SlotRow, slotFrom, type WaiterRow, waiterFrom } from "./row-codec.ts";

/** What is stored of a key in one record: all of it, for a lock without waiters. */
export interface KeyHead {
  readonly limit: number;
  /** Hexadecimal; at least as high as every fence of the key that is no longer in a slot. */
  readonly fence: string;
  /** Last activity that the slots do not show. */
  readonly at: number;
  /** The first slot; null if nothing was ever granted. */
  readonly slot: SlotRow | null;
}

export interface LapseRow {
  readonly session: string;
  readonly at: number;
}

export interface KeyRows {
  readonly head: KeyHead;
  /** All but the first slot. */
  readonly slots: readonly SlotRow[];
  /** In the order of their places. */
  readonly waiters: readonly WaiterRow[];
  readonly lapsed: readonly LapseRow[];
}

/** A key as its rows tell. */
export function storedKeyFrom({ head, slots, waiters, lapsed }: KeyRows): StoredKey {
  const restored = [...(head.slot ? [head.slot] : []), ...slots].map(slotFrom);
  const promoted = new Map<number, Slot>();
  for (const slot of restored) if (slot.isHeld && slot.place > 0) promoted.set(slot.place, slot);
  return {
    limit: head.limit,
    fence: fenceFromHex(head.fence),
    lastActivity: head.at,
    slots: restored,
    waiters: waiters.map((row): Waiter => waiterFrom(row, promoted.get(row.place))),
    lapsed: lapsed.map(({ session, at }) => [session, at] as const),
  };
}

/** The record of a key whose first slot is as given. */
export function headOf({ limit }: Pick<KeyEngine, "limit">, fence: bigint, at: number, slot: Slot | undefined): KeyHead {
  return { limit, fence: fenceToHex(fence), at, slot: slot ? slotRow(slot) : null };
}
