/** The platform stores alarms as 64-bit nanoseconds and takes none beyond the year 2189; a lease may last longer. */
const FARTHEST_MS = 30 * 24 * 3600 * 1000;

/** An object's one alarm. Setting it costs a row, so one that is too early is left alone: whoever it wakes looks again. */
export class WakeUp {
  readonly #storage: DurableObjectStorage;
  readonly #book: (time: number) => number;
  #at: number | undefined;
  /** The time that was asked for, where another was booked. */
  #asked: number | undefined;

  /** `book` may put a time off, so that not too many objects wake at once. */
  constructor(storage: DurableObjectStorage, book: (time: number) => number = (time) => time) {
    this.#storage = storage;
    this.#book = book;
  }

  /** Learns which alarm an earlier life of the object has set. */
  async recall(): Promise<void> {
    this.#at = (await this.#storage.getAlarm()) ?? undefined;
    this.#asked = this.#at;
  }

  /** The alarm has fired, or has been deleted with everything else. */
  clear(): void {
    this.#at = undefined;
    this.#asked = undefined;
  }

  /** Whether the object wakes within `ms`, or should have woken. */
  isNear(ms: number): boolean {
    return this.#at !== undefined && this.#at <= Date.now() + ms;
  }

  /** Makes sure that the object wakes at `time`, or when that was booked, or earlier; Infinity asks for nothing. */
  by(time: number): void {
    if (time === Number.POSITIVE_INFINITY || (this.#asked !== undefined && this.#asked <= time)) return;
    this.set(time);
  }

  /** Wakes the object at `time`, or when that was booked, and not before. */
  set(time: number): void {
    this.#asked = Math.min(time, Date.now() + FARTHEST_MS);
    this.#at = this.#book(this.#asked);
    void this.#storage.setAlarm(this.#at);
  }
}
