/**
 * Whether two secrets are equal. Compares digests, so that its time does not reveal where, or in what length, they
 * differ.
 */
export async function sameSecret(given: Uint8Array | string, expected: string): Promise<boolean> {
  const encoder = new TextEncoder();
  const bytes = typeof given === "string" ? encoder.encode(given) : new Uint8Array(given);
  const [a, b] = await Promise.all([
    crypto.subtle.digest("SHA-256", bytes),
    crypto.subtle.digest("SHA-256", encoder.encode(expected)),
  ]);
  const left = new Uint8Array(a);
  const right = new Uint8Array(b);
  let difference = 0;
  for (let index = 0; index < left.length; index++) difference |= (left[index] ?? 0) ^ (right[index] ?? 0);
  return difference === 0;
}
