import type { KeyReport } from "../../../client/index.ts";

/** The state of a key at one moment. */
export interface KeySnapshot {
  /** Null if the key has not been used for a while. */
  readonly report: KeyReport | null;
  /** Milliseconds of the page's steady clock. */
  readonly at: number;
}

export interface Watched {
  look(): Promise<KeyReport | null>;
  seen(snapshot: KeySnapshot): void;
  failed(error: unknown): void;
}

const POLL_EVERY_MS = 1_000;

/** Polls a key every second, and at once after an event, but not while the page is hidden. */
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

  /** The state may have changed, even since the request in flight was sent. */
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
    else this.#timer = setTimeout(() => this.ask(), POLL_EVERY_MS);
  }
}
