/** A grant that the page has seen. */
export interface SeenGrant {
  readonly who: string;
  readonly fence: string;
}

const MAX_GRANTS = 50;

/** Adds a grant, unless it is known, in the order of fences. */
export function withGrant(grants: readonly SeenGrant[], grant: SeenGrant): readonly SeenGrant[] {
  if (grants.some(({ fence }) => fence === grant.fence)) return grants;
  return [...grants, grant].toSorted((a, b) => (a.fence < b.fence ? -1 : 1)).slice(-MAX_GRANTS);
}
