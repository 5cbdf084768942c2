import { useEffect, useRef, useState } from "hono/jsx/dom";
import { useLasting } from "../shared/lasting-effect.ts";
import { useSeconds } from "./clock.ts";
import type { KeyEntry } from "./entry.ts";
import { Row, SHAPES } from "./row.tsx";
import { type Rows, rowsToDraw } from "./rows.ts";
import { useNarrow, useRowsInView } from "./viewport.ts";
import type { KeysWatch } from "./watch.ts";

interface KeyListProps {
  readonly watch: KeysWatch;
  readonly entries: readonly KeyEntry[];
  readonly isWhole: boolean;
  readonly onView: (rows: Rows) => void;
}

/** All known keys. Only rows near the window are in the document. */
export function KeyList({ watch, entries, isWhole, onView }: KeyListProps) {
  const list = useRef<HTMLUListElement>(null);
  const focusedKey = useRef(watch.chosenKey);
  const shape = useNarrow() ? SHAPES.narrow : SHAPES.wide;
  const rows = useRowsInView(list, entries, shape.height);
  useSeconds();
  useReturn(list, watch);
  useEffect(() => onView(rows), [rows]);
  const focused = entries.findIndex(({ key }) => key === focusedKey.current);
  const noteFocus = (event: Event) => {
    const row = (event.target as HTMLElement).closest<HTMLElement>("li[data-key]");
    focusedKey.current = event.type === "focus" ? row?.dataset.key : undefined;
  };
  const choose = (key: string) => {
    watch.chosenKey = key;
  };
  return (
    <>
      <div class="key-columns" aria-hidden="true">
        <span>Key</span>
        <span>Held by, for how long, and what is left of the lease</span>
        <span>Waiting</span>
      </div>
      <ul
        class="key-rows"
        aria-label="Keys"
        ref={list}
        style={{ height: `${entries.length * shape.height}px` }}
        onFocusCapture={noteFocus}
        onBlurCapture={noteFocus}
      >
        {rowsToDraw(rows, entries.length, focused).flatMap((row) => {
          const entry = entries[row];
          if (!entry) return [];
          const setSize = isWhole ? entries.length : -1;
          return [<Row key={entry.key} entry={entry} row={row} shape={shape} setSize={setSize} onChoose={choose} />];
        })}
      </ul>
    </>
  );
}

/** On return to the list, restores the scroll position and the focus on the key that was chosen. */
function useReturn(list: { readonly current: HTMLElement | null }, watch: KeysWatch): void {
  const [{ scrollTop, chosenKey = "" }] = useState({ scrollTop: watch.scrollTop, chosenKey: watch.chosenKey });
  useEffect(() => {
    watch.chosenKey = undefined;
    scrollTo({ top: scrollTop, behavior: "instant" });
    const link = list.current?.querySelector<HTMLElement>(`li[data-key="${CSS.escape(chosenKey)}"] a`);
    link?.focus({ preventScroll: true });
  }, []);
  useLasting(() => {
    const note = () => {
      watch.scrollTop = scrollY;
    };
    addEventListener("scroll", note, { passive: true });
    return () => removeEventListener("scroll", note);
  }, []);
}
