import { fenceToHex, type Which } from "../../core/engine/index.ts";
import type { Parsed } from "../request/fields.ts";

/** What must be true before a request changes anything. */
export type Condition =
  | { readonly type: "absent" }
  | { readonly type: "match"; readonly which: Which }
  | { readonly type: "none" };

const TAG = /^(W\/)?"([0-9]+)"$/;
const MAX_FENCE = 2n ** 64n - 1n;

/** The condition of a PUT. */
export function conditionOf(headers: Headers): Parsed<Condition> {
  const absent = headers.get("If-None-Match");
  const match = matchOf(headers);
  if (absent !== null && headers.has("If-Match"))
    return { ok: false, detail: "either If-None-Match or If-Match, not both" };
  if (absent !== null && absent.trim() !== "*") return { ok: false, detail: "If-None-Match must be *" };
  if (absent !== null) return { ok: true, value: { type: "absent" } };
  if (!match.ok) return match;
  return { ok: true, value: match.value ? { type: "match", which: match.value } : { type: "none" } };
}

/** The holds that `If-Match` names; undefined without that header. */
export function matchOf(headers: Headers): Parsed<Which | undefined> {
  const text = headers.get("If-Match")?.trim();
  if (text === undefined) return { ok: true, value: undefined };
  if (text === "*") return { ok: true, value: { by: "any" } };
  const tags = text.split(",").map((tag) => TAG.exec(tag.trim()));
  const fences: string[] = [];
  for (const tag of tags) {
    if (!tag) return { ok: false, detail: "If-Match must be *, or a list of fences in double quotes" };
    const [, weak, digits = ""] = tag;
    // A weak tag never matches, nor does a number that is not written as a fence.
    if (weak === undefined && isFence(digits)) fences.push(fenceToHex(BigInt(digits)));
  }
  return { ok: true, value: { by: "fence", fences } };
}

function isFence(digits: string): boolean {
  return digits.length <= 20 && String(BigInt(digits)) === digits && BigInt(digits) <= MAX_FENCE;
}
