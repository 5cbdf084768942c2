/** How the last attempt to write ended. */
export interface Verdict {
  readonly who: string;
  readonly fence: string;
  readonly isAccepted: boolean;
}

/** What a lock protects, reduced to what matters: it remembers the highest fence that it has seen. */
export interface ProtectedThing {
  readonly highest: string | undefined;
  readonly lastWriter: string | undefined;
  readonly writes: number;
  readonly verdict: Verdict | undefined;
}

export const UNTOUCHED: ProtectedThing = {
  highest: undefined,
  lastWriter: undefined,
  writes: 0,
  verdict: undefined,
};

/**
 * Accepts a fence that is not lower than all before it; a holder may write more than once. Fences compare as text.
 */
export function written(thing: ProtectedThing, who: string, fence: string): ProtectedThing {
  const isAccepted = thing.highest === undefined || fence >= thing.highest;
  const verdict = { who, fence, isAccepted };
  return isAccepted ? { highest: fence, lastWriter: who, writes: thing.writes + 1, verdict } : { ...thing, verdict };
}
