/** Fences are unsigned 64-bit integers; a token is the fence and a random salt, 16 hex digits each. */
export type Fence = bigint;

const TOP: Fence = 2n ** 64n - 1n;
const NS_PER_MS = 1_000_000n;

/** No fence above the last one is left. Nothing is granted then; nothing ever wraps. */
export class FenceExhaustedError extends Error {
  override readonly name = "FenceExhaustedError";
}

/** The fence of the next grant: above everything seen, and at least the wall clock in nanoseconds. */
export function nextFence(last: Fence, floor: Fence, nowMs: number): Fence {
  const successor = 1n + (last > floor ? last : floor);
  const clock = BigInt(Math.trunc(nowMs)) * NS_PER_MS;
  const fence = successor > clock ? successor : clock;
  if (fence > TOP) throw new FenceExhaustedError("fence space exhausted");
  return fence;
}

export function fenceToHex(fence: Fence): string {
  return fence.toString(16).padStart(16, "0");
}

export function fenceFromHex(hex: string): Fence {
  return BigInt(`0x${hex}`);
}

/** The time of the grant with this fence, in ms; later than that if fences were ahead of the clock. */
export function timeOfFence(fence: Fence): number {
  return Number(fence / NS_PER_MS);
}

/** The fence inside a token. */
export function fenceOfToken(token: string): Fence {
  return fenceFromHex(token.slice(0, 16));
}
