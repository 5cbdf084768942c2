const encoder = new TextEncoder();
const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/**
 * Whether two secrets are equal. Its time depends on the length of what was given and on nothing else: not on the
 * expected secret, its length, or where the two differ.
 */
export function sameSecret(given: Uint8Array | string, expected: string): boolean {
  const left = typeof given === "string" ? encoder.encode(given) : given;
  const right = encoder.encode(expected);
  let difference = left.length ^ right.length;
  for (let index = 0; index < left.length; index++)
    difference |= (left[index] ?? 0) ^ (right[index % right.length] ?? 0);
  return difference === 0;
}

/**
 * The text of a header whose bytes are UTF-8, if the platform gives each byte as a character, as Node does; workerd
 * decodes them itself (2026-11). Undefined if there is nothing to decode.
 */
export function decodedHeader(value: string): string | undefined {
  if (!/[\u0080-\u00ff]/.test(value) || /[\u0100-\uffff]/.test(value)) return undefined;
  try {
    return decoder.decode(Uint8Array.from(value, (character) => character.charCodeAt(0)));
  } catch {
    return undefined;
  }
}
