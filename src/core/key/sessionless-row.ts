import type { Sessionless } from "../engine/index.ts";

/** Version of the stored format. A new format gets a new number; this one must stay readable. */
const VERSION = 1;

/** Encodes a holder without a session for one column of its slot's or waiter's row. */
export function encodeSessionless({ kind, mark, tag, note }: Sessionless): string {
  return JSON.stringify({ v: VERSION, kind, mark, tag, note });
}

export function decodeSessionless(text: string): Sessionless {
  const { v, kind, mark, tag, note } = JSON.parse(text) as Sessionless & { readonly v: number };
  if (v !== VERSION)
    throw new Error(`a holder without a session is stored in shape ${v}, which this version cannot read`);
  return { kind, note, ...(mark !== undefined && { mark }), ...(tag !== undefined && { tag }) };
}
