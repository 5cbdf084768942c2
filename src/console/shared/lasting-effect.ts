import { useLayoutEffect } from "hono/jsx/dom";

/**
 * For effects with a clean-up: timers, listeners, polls. hono (4.13) runs `useEffect` in the next frame even if the component
 * was removed by then, and never cleans it up. This one runs at once, so its clean-up always runs. The element may not be
 * in the document yet.
 */
export const useLasting: typeof useLayoutEffect = useLayoutEffect;
