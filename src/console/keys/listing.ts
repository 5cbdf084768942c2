import { compareKeys, type KeyEntry } from "./entry.ts";

/** The keys from one cursor to the next. */
export interface Page {
  /** Empty for the first page. */
  readonly cursor: string;
  readonly entries: readonly KeyEntry[];
}

/**
 * The known part of the list of keys, from its beginning, without gaps and duplicates. Each page is as old as the last
 * time it was in view.
 */
export interface Listing {
  readonly pages: readonly Page[];
  /** The cursor of the first unknown page; undefined if all are known. */
  readonly more: string | undefined;
}

/** A page from the service. */
export interface Reply {
  readonly entries: readonly KeyEntry[];
  /** Undefined for the last page. */
  readonly next: string | undefined;
}

export const NOTHING_KNOWN: Listing = { pages: [], more: "" };

/**
 * The listing with this page replaced. If keys came or went, the page ends elsewhere: the next one begins there, and what
 * the new page covers is dropped from the old ones. Cursors always come from the service.
 */
export function withPage({ pages, more }: Listing, index: number, reply: Reply): Listing {
  const cursor = pages[index]?.cursor ?? more ?? "";
  const told = [...pages.slice(0, index), { cursor, entries: reply.entries }];
  if (reply.next === undefined) return { pages: told, more: undefined };
  // A page may have no keys and still be followed by others.
  const last = reply.entries.at(-1)?.key ?? reply.next;
  const [following, ...others] = pages.slice(index).flatMap((page) => {
    const entries = page.entries.filter(({ key }) => compareKeys(key, last) > 0);
    return entries.length === 0 ? [] : [{ ...page, entries }];
  });
  if (!following) return { pages: told, more: reply.next };
  return { pages: [...told, { ...following, cursor: reply.next }, ...others], more };
}

export function entriesIn({ pages }: Listing): KeyEntry[] {
  return pages.flatMap(({ entries }) => entries);
}

/** The page of this row; the last page for rows beyond the end. */
export function pageOfRow({ pages }: Listing, row: number): number {
  let end = 0;
  const index = pages.findIndex(({ entries }) => {
    end += entries.length;
    return row < end;
  });
  return index === -1 ? Math.max(0, pages.length - 1) : index;
}

/** The first row of a page; of the page after the last: where it would begin. */
export function firstRowOf({ pages }: Listing, index: number): number {
  return pages.slice(0, index).reduce((rows, { entries }) => rows + entries.length, 0);
}

export function hasPage({ pages, more }: Listing, index: number): boolean {
  return index < pages.length || (index === pages.length && more !== undefined);
}
