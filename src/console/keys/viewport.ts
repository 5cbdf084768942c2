import { type RefObject, useEffect, useLayoutEffect, useRef, useState } from "hono/jsx/dom";
import { useLasting } from "../shared/lasting-effect.ts";
import { compareKeys, type KeyEntry } from "./entry.ts";
import { type Rows, rowsInView } from "./rows.ts";

/** The first visible row, and its position in the window. */
interface Anchor {
  readonly key: string;
  readonly top: number;
}

/**
 * The visible rows of a list that scrolls with the window. If keys come or go above them, the window scrolls along, so that
 * visible rows stay in place; not at the very top of the list, so that new keys are seen.
 */
export function useRowsInView(
  list: RefObject<HTMLElement | null>,
  entries: readonly KeyEntry[],
  rowHeight: number,
): Rows {
  const [rows, setRows] = useState<Rows>({ first: 0, last: 0 });
  const anchor = useRef<Anchor | undefined>(undefined);
  const look = () => {
    if (!list.current) return;
    const { top } = list.current.getBoundingClientRect();
    const seen = rowsInView({ top, windowHeight: innerHeight, rowHeight, count: entries.length });
    const key = entries[seen.first]?.key;
    anchor.current = top < 0 && key !== undefined ? { key, top: top + seen.first * rowHeight } : undefined;
    setRows((last) => (last.first === seen.first && last.last === seen.last ? last : seen));
  };
  useLayoutEffect(() => {
    if (list.current && anchor.current) {
      const { top } = list.current.getBoundingClientRect();
      const moved = top + rowAt(entries, anchor.current.key) * rowHeight - anchor.current.top;
      if (moved !== 0) scrollBy({ top: moved, behavior: "instant" });
    }
    look();
  }, [entries, rowHeight]);
  const latest = useRef(look);
  latest.current = look;
  // At the first render the list is not in the document yet.
  useEffect(() => latest.current?.(), []);
  useLasting(() => {
    const changed = () => latest.current?.();
    addEventListener("scroll", changed, { passive: true });
    addEventListener("resize", changed);
    return () => {
      removeEventListener("scroll", changed);
      removeEventListener("resize", changed);
    };
  }, []);
  return rows;
}

/** The row of this key, or of the next one if it is gone. */
function rowAt(entries: readonly KeyEntry[], key: string): number {
  const row = entries.findIndex((entry) => compareKeys(entry.key, key) >= 0);
  return row === -1 ? entries.length : row;
}

/** Whether the window is so narrow that a row takes several lines. */
export function useNarrow(): boolean {
  const [query] = useState(() => matchMedia("(max-width: 52rem)"));
  const [isNarrow, setNarrow] = useState(query.matches);
  useLasting(() => {
    const changed = () => setNarrow(query.matches);
    query.addEventListener("change", changed);
    return () => query.removeEventListener("change", changed);
  }, []);
  return isNarrow;
}
