import { useLayoutEffect, useRef } from "hono/jsx/dom";

/** How long a lease is and when it ends, on the page's steady clock. */
export interface LeaseSeen {
  readonly ms: number;
  readonly endsAt: number;
}

/** A lease from a reply that was received at `at`, by the page's clock. */
export function leaseOf(
  { lease_s, lease_expires_in_s }: { readonly lease_s: number; readonly lease_expires_in_s: number },
  at: number,
): LeaseSeen {
  return { ms: lease_s * 1000, endsAt: at + lease_expires_in_s * 1000 };
}

export function prefersReducedMotion(): boolean {
  return matchMedia("(prefers-reduced-motion: reduce)").matches;
}

/** Below this part the bar is drawn as a warning. */
const SHORT_PART = 0.25;

/**
 * Shrinks a bar as the lease runs out, corrected by every reply. With reduced motion it is not animated.
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
    if (prefersReducedMotion()) return;
    const draining = element.animate([{ transform: `scaleX(${part})` }, { transform: "scaleX(0)" }], {
      duration: leftMs,
      fill: "forwards",
    });
    return () => draining.cancel();
  }, [ms, endsAt]);
  return bar;
}
