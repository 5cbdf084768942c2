import type { Holder } from "../../client/report.ts";
import { leaseOf, useDraining } from "../shared/lease.ts";

interface LeaseBarProps {
  readonly holder: Holder;
  /** When the holder was received. */
  readonly at: number;
}

/** What is left of a lease, as a shrinking bar. The same is shown beside it as text. */
export function LeaseBar({ holder, at }: LeaseBarProps) {
  const fill = useDraining(leaseOf(holder, at));
  return (
    <span class="lease" aria-hidden="true">
      <span class="fill" ref={fill} />
    </span>
  );
}
