import type { Sessionless } from "../../engine/index.ts";

/** The shape of the column. A later one gets another number, and this one is still read. */
const VERSION = 1;

/** What is stored of a holder without a session, in one column of its slot's or place's row. */
export function encodeSessionless({ kind, mark, tag, note }: Sessionless): string {
  return JSON.stringify({ v: VERSION, kind, mark, tag, note });
}

export function decodeSessionless(text: string): Sessionless {
  const { v, kind, mark, tag, note } = JSON.parse(text) as Sessionless & { readonly v: number };
  if (v !== VERSION)
    throw new Error(`a holder without a session is stored in shape ${v}, which this version cannot read`);
  return { kind, note, ...(mark !== undefined && { mark }), ...(tag !== undefined && { tag }) };
}
