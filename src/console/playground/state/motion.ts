import { useLayoutEffect, useRef } from "hono/jsx/dom";
import { prefersReducedMotion } from "../../shared/lease.ts";

const MOVE: KeyframeAnimationOptions = { duration: 420, easing: "cubic-bezier(0.2, 0.8, 0.2, 1)" };

/**
 * Animates elements with a `data-mover` from where they were last drawn to where they are now, also from one list to
 * another. Uses layout positions, which a running animation does not change.
 */
export function useMoveAnimation() {
  const container = useRef<HTMLElement>(null);
  const last = useRef(new Map<string, { readonly x: number; readonly y: number }>());
  useLayoutEffect(() => {
    const movers = [...(container.current?.querySelectorAll<HTMLElement>("[data-mover]") ?? [])];
    const before = last.current ?? new Map();
    last.current = new Map(
      movers.map((mover) => [mover.dataset.mover ?? "", { x: mover.offsetLeft, y: mover.offsetTop }]),
    );
    if (prefersReducedMotion()) return;
    for (const mover of movers) animateMove(mover, before.get(mover.dataset.mover ?? ""));
  });
  return container;
}

function animateMove(mover: HTMLElement, from: { readonly x: number; readonly y: number } | undefined): void {
  if (!from) {
    mover.animate([{ opacity: 0, transform: "scale(0.8)" }, {}], MOVE);
    return;
  }
  const [dx, dy] = [from.x - mover.offsetLeft, from.y - mover.offsetTop];
  if (dx !== 0 || dy !== 0) mover.animate([{ transform: `translate(${dx}px, ${dy}px)` }, {}], MOVE);
}
