import { type CurrentHold, fenceFromHex, type Sessionless } from "../../core/engine/index.ts";
import { protocolOf } from "../../core/session-names.ts";
import { FILE } from "../files/text.ts";
import type { Parsed } from "../request/fields.ts";
import { leaseBegan } from "../sessionless/replies.ts";

export const TERRAFORM = "terraform";
export const MAX_INFO_BYTES = 65_536;
const MAX_ID_CHARACTERS = 256;

/** Terraform's description of its lock. The text is kept as received; only the id is ever compared. */
export interface LockInfo {
  readonly id: string;
  readonly who: string;
  readonly text: string;
}

export function isId(value: unknown): value is string {
  return typeof value === "string" && value !== "" && [...value].length <= MAX_ID_CHARACTERS;
}

/** Reads a lock info; undefined if the body is empty. */
export function infoIn(bytes: Uint8Array): Parsed<LockInfo | undefined> {
  const rule = {
    ok: false,
    detail: `body must be a JSON object with an ID of 1 to ${MAX_ID_CHARACTERS} characters`,
  } as const;
  try {
    const text = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
    if (text.trim() === "") return { ok: true, value: undefined };
    const value: unknown = JSON.parse(text);
    if (typeof value !== "object" || value === null || Array.isArray(value)) return rule;
    const { ID: id, Who: who } = value as { readonly ID?: unknown; readonly Who?: unknown };
    return isId(id) ? { ok: true, value: { id, who: typeof who === "string" ? who : "", text } } : rule;
  } catch {
    return rule;
  }
}

/** What is stored of a lock. The label is its owner or, if that is empty, its id. */
export function holderFrom({ id, who, text }: LockInfo): Sessionless & { readonly kind: typeof TERRAFORM } {
  return { kind: TERRAFORM, mark: id, tag: who || id, note: text };
}

/** The holder as Terraform would describe it: the original info, or one made up for a holder of another protocol. */
export function infoOf(hold: CurrentHold, key: string): string {
  const { session, request, fence, sessionless } = hold;
  if (sessionless?.kind === TERRAFORM) return sessionless.note;
  return JSON.stringify({
    ID: String(fenceFromHex(fence)),
    Operation: `holdfast:${protocolOf(session, request)}`,
    Info: (sessionless?.kind === FILE && sessionless.tag) || "",
    Who: "",
    Version: "",
    Created: new Date(leaseBegan(hold)).toISOString(),
    Path: key,
  });
}
