/** Characters that could move the cursor, change colours or the writing direction. */
export const UNPRINTABLE = /[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]/gu;

/** Escapes control characters: keys and labels come from other clients and may contain any character. */
export function printable(text: string): string {
  return text.replace(UNPRINTABLE, (character) => `\\u{${(character.codePointAt(0) ?? 0).toString(16)}}`);
}

/** Ranges of characters that take two columns: CJK, Hangul, full-width forms, emoji. */
const WIDE =
  /^[\u1100-\u115f\u2e80-\u303e\u3041-\ua4cf\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe6f\uff00-\uff60\uffe0-\uffe6\u{1f300}-\u{1f64f}\u{1f680}-\u{1f6ff}\u{1f900}-\u{1f9ff}\u{20000}-\u{3fffd}]$/u;
const COMBINING = /^\p{M}$/u;

function widthOfOne(character: string): number {
  return COMBINING.test(character) ? 0 : WIDE.test(character) ? 2 : 1;
}

/** How many columns of a terminal the text takes. */
export function widthOf(text: string): number {
  let width = 0;
  for (const character of text) width += widthOfOne(character);
  return width;
}

/** The text in exactly this many columns: truncated with an ellipsis, or padded with blanks. */
export function fit(text: string, columns: number): string {
  const width = widthOf(text);
  if (width <= columns) return text + " ".repeat(columns - width);
  if (columns <= 0) return "";
  let kept = "";
  let used = 0;
  for (const character of text) {
    const next = widthOfOne(character);
    if (used + next > columns - 1) break;
    kept += character;
    used += next;
  }
  return `${kept}…${" ".repeat(columns - used - 1)}`;
}
