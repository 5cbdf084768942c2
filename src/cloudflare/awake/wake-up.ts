/** The platform stores alarms as 64-bit nanoseconds and accepts none beyond the year 2189; a lease may last longer. */
const FARTHEST_MS = 30 * 24 * 3600 * 1000;

/** Wakes an object, or one of the sessions in it. */
export interface Alarm {
  /** Whether it is due within `ms`, or overdue. */
  isNear(ms: number): boolean;
  /** Makes sure that it fires at `time` or earlier. Infinity does nothing. */
  by(time: number): void;
  /** Has it fire at `time`. */
  set(time: number): void;
  /** It has fired, or is no longer needed. */
  clear(): void;
}

/** An object's one alarm. Setting it costs a row, so an early alarm is kept: the object checks again when it wakes. */
export class WakeUp implements Alarm {
  readonly #storage: DurableObjectStorage;
  readonly #book: (time: number) => number;
  #at: number | undefined;
  /** The time asked for, which may be earlier than the one booked. */
  #asked: number | undefined;

  /** `book` may defer a time, so that not too many objects wake at once. */
  constructor(storage: DurableObjectStorage, book: (time: number) => number = (time) => time) {
    this.#storage = storage;
    this.#book = book;
  }

  /** Loads the alarm set before the object was restarted. */
  async recall(): Promise<void> {
    this.#at = (await this.#storage.getAlarm()) ?? undefined;
    this.#asked = this.#at;
  }

  /** The alarm has fired, or was deleted with everything else. */
  clear(): void {
    this.#at = undefined;
    this.#asked = undefined;
  }

  get isSet(): boolean {
    return this.#at !== undefined;
  }

  /** Whether the alarm is due within `ms`, or overdue. */
  isNear(ms: number): boolean {
    return this.#at !== undefined && this.#at <= Date.now() + ms;
  }

  /** Makes sure that the object wakes at `time`, or when that was booked, or earlier. Infinity does nothing. */
  by(time: number): void {
    if (time === Number.POSITIVE_INFINITY || (this.#asked !== undefined && this.#asked <= time)) return;
    this.set(time);
  }

  /** Wakes the object at `time`, or when that was booked, and not earlier. */
  set(time: number): void {
    this.#asked = Math.min(time, Date.now() + FARTHEST_MS);
    this.#at = this.#book(this.#asked);
    void this.#storage.setAlarm(this.#at);
  }
}
