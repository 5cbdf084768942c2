import type { KeyReport } from "../../../client/index.ts";

/** A key as the service has shown it. */
export interface Sight {
  /** Null if nobody has used the key for a while. */
  readonly report: KeyReport | null;
  /** Milliseconds of the page's steady clock. */
  readonly at: number;
}

export interface Watched {
  look(): Promise<KeyReport | null>;
  seen(sight: Sight): void;
  failed(error: unknown): void;
}

const LOOK_EVERY_MS = 1_000;

/** Looks at a key every second, and at once when something has happened, but never while nobody sees the page. */
export class KeyWatch {
  readonly #watched: Watched;
  readonly #shown = () => this.ask();
  #timer: ReturnType<typeof setTimeout> | undefined;
  #isLooking = false;
  #isStale = false;
  #isOver = false;

  constructor(watched: Watched) {
    this.#watched = watched;
    document.addEventListener("visibilitychange", this.#shown);
    this.ask();
  }

  /** Something may be different from what was seen, also from what is being looked up now. */
  ask(): void {
    if (this.#isLooking) this.#isStale = true;
    else if (!this.#isOver && !document.hidden) void this.#look();
  }

  stop(): void {
    this.#isOver = true;
    clearTimeout(this.#timer);
    document.removeEventListener("visibilitychange", this.#shown);
  }

  async #look(): Promise<void> {
    clearTimeout(this.#timer);
    this.#isLooking = true;
    this.#isStale = false;
    try {
      const report = await this.#watched.look();
      if (!this.#isOver) this.#watched.seen({ report, at: performance.now() });
    } catch (error) {
      if (!this.#isOver) this.#watched.failed(error);
    }
    this.#isLooking = false;
    if (this.#isOver) return;
    if (this.#isStale) this.ask();
    else this.#timer = setTimeout(() => this.ask(), LOOK_EVERY_MS);
  }
}
