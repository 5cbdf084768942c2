/** Fences are unsigned 64-bit integers; a token is the fence and a random salt, 16 hex digits each. */
export type Fence = bigint;

const MAX_FENCE: Fence = 2n ** 64n - 1n;
const NS_PER_MS = 1_000_000n;

/** No fence above the last one is left: nothing is granted. Fences never wrap. */
export class FenceExhaustedError extends Error {
  override readonly name = "FenceExhaustedError";
}

/** The fence of the next grant: above the last one and the floor, and at least the wall clock in nanoseconds. */
export function nextFence(last: Fence, floor: Fence, nowMs: number): Fence {
  const successor = 1n + (last > floor ? last : floor);
  const clock = BigInt(Math.trunc(nowMs)) * NS_PER_MS;
  const fence = successor > clock ? successor : clock;
  if (fence > MAX_FENCE) throw new FenceExhaustedError("fence space exhausted");
  return fence;
}

/** Below every fence that is granted from now on, if the clock does not go back; not below earlier ones. */
export function fenceBefore(nowMs: number): Fence {
  return BigInt(Math.trunc(nowMs)) * NS_PER_MS - 1n;
}

export function fenceToHex(fence: Fence): string {
  return fence.toString(16).padStart(16, "0");
}

export function fenceFromHex(hex: string): Fence {
  return BigInt(`0x${hex}`);
}

/** When the grant with this fence was made, in ms; too late if fences were ahead of the clock. */
export function timeOfFence(fence: Fence): number {
  return Number(fence / NS_PER_MS);
}

/** The fence inside a token. */
export function fenceOfToken(token: string): Fence {
  return fenceFromHex(token.slice(0, 16));
}
