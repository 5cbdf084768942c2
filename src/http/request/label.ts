import { labelHeader } from "../openapi/schemas.ts";
import type { Parsed } from "./fields.ts";

/** A name the client chooses, shown to others next to what it holds and waits for. */
export function labelOf(text: string | undefined): Parsed<string | undefined> {
  if (text === undefined || text === "") return { ok: true, value: undefined };
  const result = labelHeader.safeParse(text);
  if (result.success) return { ok: true, value: result.data };
  return { ok: false, detail: `label ${result.error.issues[0]?.message ?? "is malformed"}` };
}
