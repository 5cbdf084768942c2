import { useLayoutEffect } from "hono/jsx/dom";

/**
 * For effects that last: timers, listeners, polls. hono (4.13) runs `useEffect` in the next frame even for what has been removed
 * by then, and never ends it: it would go on for ever, and draw itself into a page where it does not belong. This runs at once,
 * so its end always comes. What it draws into may not be in the document yet.
 */
export const useLasting: typeof useLayoutEffect = useLayoutEffect;
