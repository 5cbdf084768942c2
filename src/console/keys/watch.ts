import type { Service } from "../shared/service.ts";
import { entriesOf, type StatsPage } from "./entry.ts";
import { firstRowOf, hasPage, type Listing, NOTHING_KNOWN, pageOfRow, withPage } from "./listing.ts";
import type { Rows } from "./rows.ts";

/** Keys on a page are asked, and woken if they sleep: the first page has little more than a window shows. */
const FIRST_PAGE_SIZE = 50;
/** Those who scroll get there sooner with larger ones. */
const PAGE_SIZE = 100;
/** So many rows below the last visible one are there before somebody scrolls to them. */
const AHEAD = 20;

/** Follows those keys that are in view, however many there are. */
export class KeysWatch {
  readonly prefix: string;
  /** What somebody has before his eyes. */
  view: Rows = { first: 0, last: 0 };
  /** Where somebody was who comes back, and which key he had gone to. */
  scrollTop = 0;
  chosenKey: string | undefined;
  readonly #service: Service;
  #listing = NOTHING_KNOWN;

  constructor(service: Service, prefix: string) {
    this.#service = service;
    this.prefix = prefix;
  }

  /** All that was ever told. */
  get listing(): Listing {
    return this.#listing;
  }

  /** There are keys that should be in view but were never asked for. */
  get isShort(): boolean {
    const { pages, more } = this.#listing;
    return more !== undefined && firstRowOf(this.#listing, pages.length) <= this.view.last + AHEAD;
  }

  /** Asks for the pages in view, in their order: each begins where the one before has ended this time. */
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

/** The last watch with this credential, so that whoever comes back finds the list as he left it. */
export const lastWatch = {
  of: (service: Service): KeysWatch => watches.get(service) ?? new KeysWatch(service, ""),
  keep: (service: Service, watch: KeysWatch): void => void watches.set(service, watch),
};
