const MAX_LABEL_CHARACTERS = 64;
/** Characters a label must not contain: they could make one label look like another. */
const UNPRINTABLE = /[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]/gu;

/** A tag as a label: printable and short. Undefined if nothing printable is left. */
export function labelOfTag(tag: string | undefined): string | undefined {
  const label = [...(tag ?? "").toWellFormed().replace(UNPRINTABLE, "")].slice(0, MAX_LABEL_CHARACTERS).join("").trim();
  return label === "" ? undefined : label;
}
