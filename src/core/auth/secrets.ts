const encoder = new TextEncoder();

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
