import type { Service } from "../shared/service.ts";
import { entriesOf, type StatsPage } from "./entry.ts";
import { firstRowOf, hasPage, type Listing, NOTHING_KNOWN, pageOfRow, withPage } from "./listing.ts";
import type { Rows } from "./rows.ts";

/** Each key on a page is asked, which wakes it: the first page has little more than a window shows. */
const FIRST_PAGE_SIZE = 50;
/** Larger, for scrolling. */
const PAGE_SIZE = 100;
/** Rows loaded ahead of the last visible one. */
const AHEAD = 20;

/** Polls the keys in view, however many there are. */
export class KeysWatch {
  readonly prefix: string;
  /** The visible rows. */
  view: Rows = { first: 0, last: 0 };
  /** Scroll position and chosen key, to restore on return to the list. */
  scrollTop = 0;
  chosenKey: string | undefined;
  readonly #service: Service;
  #listing = NOTHING_KNOWN;

  constructor(service: Service, prefix: string) {
    this.#service = service;
    this.prefix = prefix;
  }

  /** Everything received so far. */
  get listing(): Listing {
    return this.#listing;
  }

  /** Whether keys that should be visible were never loaded. */
  get isShort(): boolean {
    const { pages, more } = this.#listing;
    return more !== undefined && firstRowOf(this.#listing, pages.length) <= this.view.last + AHEAD;
  }

  /** Loads the pages in view, in order: each begins where the one before it ended. */
  async look(signal: AbortSignal): Promise<Listing> {
    let index = pageOfRow(this.#listing, this.view.first);
    do {
      const { pages, more } = this.#listing;
      const reply = await this.#ask(pages[index]?.cursor ?? more ?? "", signal);
      this.#listing = withPage(this.#listing, index, reply);
      index += 1;
    } while (hasPage(this.#listing, index) && firstRowOf(this.#listing, index) <= this.view.last + AHEAD);
    return this.#listing;
  }

  async #ask(cursor: string, signal: AbortSignal) {
    const limit = cursor === "" ? FIRST_PAGE_SIZE : PAGE_SIZE;
    const query = new URLSearchParams({ limit: String(limit), detail: "true" });
    if (this.prefix !== "") query.set("prefix", this.prefix);
    if (cursor !== "") query.set("cursor", cursor);
    const page = await this.#service.json<StatsPage>(`/v1/stats?${query}`, { signal });
    return { entries: entriesOf(page, performance.now()), next: page.next_cursor };
  }
}

const watches = new WeakMap<Service, KeysWatch>();

/** The last watch with this credential, to restore the list on return. */
export const lastWatch = {
  of: (service: Service): KeysWatch => watches.get(service) ?? new KeysWatch(service, ""),
  keep: (service: Service, watch: KeysWatch): void => void watches.set(service, watch),
};
