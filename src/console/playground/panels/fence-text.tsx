import { partsOf } from "../state/fence.ts";
import type { SeenGrant } from "../state/grants.ts";

/** A fence with the digits set off that tell it from the others of its key. */
export function FenceText({ fence, among }: { readonly fence: string; readonly among: readonly SeenGrant[] }) {
  const { same, telling, rest } = partsOf(
    fence,
    among.map((grant) => grant.fence),
  );
  return (
    <code class="fence">
      {same}
      {telling && <strong>{telling}</strong>}
      {rest}
    </code>
  );
}
