import type { Holder } from "../../client/report.ts";
import { leaseOf, useDraining } from "../shared/lease.ts";

interface LeaseBarProps {
  readonly holder: Holder;
  /** When the holder was seen like this. */
  readonly at: number;
}

/** What is left of a lease, draining as time passes. What it shows stands beside it in words. */
export function LeaseBar({ holder, at }: LeaseBarProps) {
  const fill = useDraining(leaseOf(holder, at));
  return (
    <span class="lease" aria-hidden="true">
      <span class="fill" ref={fill} />
    </span>
  );
}
