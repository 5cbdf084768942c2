/** A longer lock file is malformed. */
export const MAX_LOCK_BYTES = 65_536;
export const MAX_PID = 4_294_967_295;

/** The last value of each `key=` of a lock text. */
export type Fields = ReadonlyMap<string, string>;

/** Only these five. `String.prototype.trim` also removes the byte-order mark and Unicode spaces. */
const BLANKS = new Set([" ", "\t", "\v", "\f", "\r"]);

function trimBlanks(line: string): string {
  let start = 0;
  let end = line.length;
  while (start < end && BLANKS.has(line.charAt(start))) start += 1;
  while (end > start && BLANKS.has(line.charAt(end - 1))) end -= 1;
  return line.slice(start, end);
}

function decodeUtf8(bytes: Uint8Array): string | undefined {
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    return undefined;
  }
}

/**
 * Splits a lock text into its fields; undefined if it is too long or not UTF-8. Lines without `=` are ignored, lines
 * are trimmed, the first `=` of a line splits it, and of a repeated key the last value counts. Never throws.
 */
export function readFields(bytes: Uint8Array, maxBytes = MAX_LOCK_BYTES): Fields | undefined {
  if (bytes.length > maxBytes) return undefined;
  const text = decodeUtf8(bytes);
  if (text === undefined) return undefined;
  const fields = new Map<string, string>();
  for (const line of text.split("\n").map(trimBlanks)) {
    const split = line.indexOf("=");
    if (split >= 0) fields.set(line.slice(0, split), line.slice(split + 1));
  }
  return fields;
}

/** A number in a lock text: digits with an optional plus sign, at most `max`; undefined if it is anything else. */
export function readNumber(text: string | undefined, max: number): number | undefined {
  if (text === undefined || !/^\+?[0-9]+$/.test(text)) return undefined;
  const value = Number(text);
  return value <= max ? value : undefined;
}

export function isNonce(text: string): boolean {
  return /^[0-9a-f]{1,64}$/.test(text);
}
