/** A fence in three parts: what it shares with all others, what tells it from them, and the rest. */
export interface FenceParts {
  readonly same: string;
  readonly telling: string;
  readonly rest: string;
}

/** So many digits are enough to see which is higher. */
const TELLING_DIGITS = 4;

export function partsOf(fence: string, seen: readonly string[]): FenceParts {
  const shared = new Set(seen).size < 2 ? 0 : Math.min(...seen.map((other) => sharedDigits(other, seen[0] ?? "")));
  if (shared === 0) return { same: "", telling: "", rest: fence };
  const end = shared + TELLING_DIGITS;
  return { same: fence.slice(0, shared), telling: fence.slice(shared, end), rest: fence.slice(end) };
}

function sharedDigits(one: string, other: string): number {
  const end = [...one].findIndex((digit, index) => digit !== other[index]);
  return end === -1 ? one.length : end;
}
