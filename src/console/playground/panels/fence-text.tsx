import { partsOf } from "../state/fence.ts";
import type { SeenGrant } from "../state/grants.ts";

/** A fence with the digits emphasised in which it differs from the others of its key. */
export function FenceText({ fence, among }: { readonly fence: string; readonly among: readonly SeenGrant[] }) {
  const { same, distinct, rest } = partsOf(
    fence,
    among.map((grant) => grant.fence),
  );
  return (
    <code class="fence">
      {same}
      {distinct && <strong>{distinct}</strong>}
      {rest}
    </code>
  );
}
