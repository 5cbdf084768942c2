/** Rows as text: JSON arrays, because the names of fields would be more than half of a row. */
import type { SlotRow, WaiterRow } from "../../core/key/row-codec.ts";
import type { KeyHead } from "./store.ts";

/** In this order. Those that are usually null come last: they are left out. */
const SLOT: readonly (keyof SlotRow)[] = [
  "slot",
  "token",
  "flags",
  "lease_s",
  "expires_at",
  "since",
  "place",
  "session",
  "request",
  "releases",
  "sessionless",
];
const WAITER: readonly (keyof WaiterRow)[] = [
  "place",
  "session",
  "request",
  "is_enqueued",
  "lease_s",
  "joined_at",
  "deadline",
  "wait_request",
  "outcome",
  "sessionless",
];

export function encodeHead({ limit, fence, at, slot }: KeyHead): string {
  return JSON.stringify(slot ? [limit, fence, at, valuesOf(slot, SLOT)] : [limit, fence, at]);
}

export function decodeHead(text: string): KeyHead {
  const [limit, fence, at, slot] = JSON.parse(text) as [number, string, number, unknown[]?];
  return { limit, fence, at, slot: slot ? rowOf<SlotRow>(slot, SLOT) : null };
}

export const encodeSlot = (slot: SlotRow): string => JSON.stringify(valuesOf(slot, SLOT));
export const decodeSlot = (text: string): SlotRow => rowOf(JSON.parse(text) as unknown[], SLOT);
export const encodeWaiter = (waiter: WaiterRow): string => JSON.stringify(valuesOf(waiter, WAITER));
export const decodeWaiter = (text: string): WaiterRow => rowOf(JSON.parse(text) as unknown[], WAITER);

function valuesOf<Row>(row: Row, names: readonly (keyof Row)[]): unknown[] {
  const values: unknown[] = names.map((name) => row[name]);
  while (values.at(-1) === null) values.pop();
  return values;
}

function rowOf<Row>(values: readonly unknown[], names: readonly (keyof Row)[]): Row {
  return Object.fromEntries(names.map((name, index) => [name, values[index] ?? null])) as Row;
}
