/** A fence in three parts: the prefix that all fences share, the first digits that differ, and the rest. */
export interface FenceParts {
  readonly same: string;
  readonly distinct: string;
  readonly rest: string;
}

/** Enough digits to see which fence is higher. */
const DISTINCT_DIGITS = 4;

export function partsOf(fence: string, seen: readonly string[]): FenceParts {
  const shared = new Set(seen).size < 2 ? 0 : Math.min(...seen.map((other) => sharedDigits(other, seen[0] ?? "")));
  if (shared === 0) return { same: "", distinct: "", rest: fence };
  const end = shared + DISTINCT_DIGITS;
  return { same: fence.slice(0, shared), distinct: fence.slice(shared, end), rest: fence.slice(end) };
}

function sharedDigits(one: string, other: string): number {
  const end = [...one].findIndex((digit, index) => digit !== other[index]);
  return end === -1 ? one.length : end;
}
