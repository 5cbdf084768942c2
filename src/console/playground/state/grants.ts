/** Somebody got the key, under that fence. */
export interface Grant {
  readonly who: string;
  readonly fence: string;
}

const MAX_GRANTS = 50;

/** With one more, unless it is known, in the order of the fences. */
export function withGrant(grants: readonly Grant[], grant: Grant): readonly Grant[] {
  if (grants.some(({ fence }) => fence === grant.fence)) return grants;
  return [...grants, grant].toSorted((a, b) => (a.fence < b.fence ? -1 : 1)).slice(-MAX_GRANTS);
}
