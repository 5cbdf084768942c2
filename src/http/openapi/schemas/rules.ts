import { z } from "@hono/zod-openapi";
import { MAX_SECONDS } from "../../../core/config/config.ts";

const MAX_BYTES = 256;
const LABEL = /^[^\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]{1,64}$/u;

/** A whole number within bounds, as written in JSON: 64 bits, no fraction, no exponent. */
export function wholeNumber(least: number, most: number) {
  const rule = { error: `must be a whole number from ${least} to ${most}` };
  return z.int(rule).min(least, rule).max(most, rule).openapi({ format: "int64" });
}

/** Seconds, as in all our protocols. */
export function seconds() {
  return wholeNumber(0, MAX_SECONDS);
}

/** Text of 1 to 256 bytes without blanks: the common rule of keys, key patterns and tokens. */
export function unbrokenText() {
  const rule = { error: `must be a string of 1 to ${MAX_BYTES} bytes without space, tab or line break` };
  return z
    .string(rule)
    .min(1, rule)
    .max(MAX_BYTES, rule)
    .regex(/^[^ \t\n\r]*$/, rule)
    .refine(isWithinBytes, rule);
}

/** Whether the text is valid Unicode and short enough in UTF-8. */
export function isWithinBytes(text: string): boolean {
  return text.isWellFormed() && new TextEncoder().encode(text).length <= MAX_BYTES;
}

/** A name a client chooses for people to read. Invisible characters could make one label look like another. */
export function labelText() {
  const rule = { error: "must be 1 to 64 printable characters" };
  // Repeated for the document, whose generator does not support regular expressions with flags.
  return z.string(rule).regex(LABEL, rule).openapi({ pattern: LABEL.source });
}

/** Exactly `count` lowercase hex digits. */
export function hexDigits(count: number) {
  const rule = { error: `must be ${count} lowercase hex digits` };
  return z.string(rule).regex(new RegExp(`^[0-9a-f]{${count}}$`), rule);
}
