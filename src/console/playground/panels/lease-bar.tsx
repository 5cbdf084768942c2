import { type LeaseSeen, useDraining } from "../../shared/lease.ts";

/** How much of a lease is left. A renewal fills it again. */
export function LeaseBar({ lease }: { readonly lease: LeaseSeen }) {
  const bar = useDraining(lease);
  const left = Math.max(0, Math.round((lease.endsAt - performance.now()) / 1000));
  return (
    <div class="lease-left">
      <div class="drain" aria-hidden="true">
        <span ref={bar} />
      </div>
      <span class="note">
        lease {left} of {lease.ms / 1000} s
      </span>
    </div>
  );
}
