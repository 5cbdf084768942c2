/** How the last attempt to write ended. */
export interface Verdict {
  readonly who: string;
  readonly fence: string;
  readonly isAccepted: boolean;
}

/** A resource that a lock protects: it remembers the highest fence that it has seen. */
export interface ProtectedResource {
  readonly highest: string | undefined;
  readonly lastWriter: string | undefined;
  readonly writes: number;
  readonly verdict: Verdict | undefined;
}

export const UNWRITTEN: ProtectedResource = {
  highest: undefined,
  lastWriter: undefined,
  writes: 0,
  verdict: undefined,
};

/**
 * Accepts a fence that is not lower than all before it; a holder may write more than once. Fences compare as text.
 */
export function written(resource: ProtectedResource, who: string, fence: string): ProtectedResource {
  const isAccepted = resource.highest === undefined || fence >= resource.highest;
  const verdict = { who, fence, isAccepted };
  return isAccepted
    ? { highest: fence, lastWriter: who, writes: resource.writes + 1, verdict }
    : { ...resource, verdict };
}
