/** Rows of the list, by their number from 0. */
export interface Rows {
  readonly first: number;
  readonly last: number;
}

/** Position of the list in the window, in pixels. */
export interface Placement {
  /** Of its upper edge, from that of the window. */
  readonly top: number;
  readonly windowHeight: number;
  readonly rowHeight: number;
  readonly count: number;
}

/** Rows rendered beyond both edges, for scrolling and for keyboard navigation. */
const BEYOND = 8;

/** The rows that are at least partly visible. */
export function rowsInView({ top, windowHeight, rowHeight, count }: Placement): Rows {
  const within = (row: number) => Math.max(0, Math.min(count - 1, row));
  return {
    first: within(Math.floor(-top / rowHeight)),
    last: within(Math.ceil((windowHeight - top) / rowHeight) - 1),
  };
}

/**
 * The rows to render: those in view and around it, and the focused one with its neighbours, for keyboard navigation.
 */
export function rowsToDraw({ first, last }: Rows, count: number, focused: number): number[] {
  const around = between(first - BEYOND, last + BEYOND, count);
  const besides = focused < 0 ? [] : between(focused - 1, focused + 1, count);
  return [...new Set([...around, ...besides])].sort((a, b) => a - b);
}

function between(first: number, last: number, count: number): number[] {
  const from = Math.max(0, first);
  const to = Math.min(count - 1, last);
  return Array.from({ length: Math.max(0, to - from + 1) }, (_, offset) => from + offset);
}
