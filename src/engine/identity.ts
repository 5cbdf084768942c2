import type { Slot } from "./members.ts";
import type { Sessionless } from "./types.ts";

/** Of a longer tag only the beginning is shown: a view has room for a hundred. */
const MAX_TAG_SHOWN = 256;

/** The tag of a holder without a session, as views and statistics have it. */
export function tagOf(sessionless: Sessionless | undefined): { readonly tag?: string } {
  const tag = sessionless?.tag;
  return tag === undefined ? {} : { tag: tag.slice(0, MAX_TAG_SHOWN) };
}

/** Whose hold it is, as others are told. */
export function identityOf({ session, fence, sessionless }: Slot): { session: string; fence: string; tag?: string } {
  return { session, fence, ...tagOf(sessionless) };
}
