import { useLayoutEffect, useRef } from "hono/jsx/dom";

/** How long a lease is and when it ends, on the page's steady clock. */
export interface LeaseSeen {
  readonly ms: number;
  readonly endsAt: number;
}

/** A lease as the service told it at that moment of the page's clock. */
export function leaseOf(
  { lease_s, lease_expires_in_s }: { readonly lease_s: number; readonly lease_expires_in_s: number },
  at: number,
): LeaseSeen {
  return { ms: lease_s * 1000, endsAt: at + lease_expires_in_s * 1000 };
}

export function wantsStillness(): boolean {
  return matchMedia("(prefers-reduced-motion: reduce)").matches;
}

/** Below this part a lease is short: the bar may warn. */
const SHORT_PART = 0.25;

/**
 * Empties a bar as the lease runs out, set right by every reply. For those who want no motion it is as full as the lease was
 * when it was last drawn.
 */
export function useDraining({ ms, endsAt }: LeaseSeen) {
  const bar = useRef<HTMLElement>(null);
  useLayoutEffect(() => {
    const element = bar.current;
    if (!element) return;
    const leftMs = Math.max(0, endsAt - performance.now());
    const part = Math.min(1, leftMs / Math.max(1, ms));
    element.style.transform = `scaleX(${part})`;
    element.classList.toggle("short", part < SHORT_PART);
    if (wantsStillness()) return;
    const draining = element.animate([{ transform: `scaleX(${part})` }, { transform: "scaleX(0)" }], {
      duration: leftMs,
      fill: "forwards",
    });
    return () => draining.cancel();
  }, [ms, endsAt]);
  return bar;
}
