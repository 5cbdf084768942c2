/** The platform stores alarms as 64-bit nanoseconds and accepts none beyond the year 2189; a lease may last longer. */
const FARTHEST_MS = 30 * 24 * 3600 * 1000;

/** An object's one alarm. Setting it costs a row, so an early alarm is kept: the object checks again when it wakes. */
export class WakeUp {
  readonly #storage: DurableObjectStorage;
  #at: number | undefined;

  constructor(storage: DurableObjectStorage) {
    this.#storage = storage;
  }

  /** Loads the alarm set before the object was restarted. */
  async recall(): Promise<void> {
    this.#at = (await this.#storage.getAlarm()) ?? undefined;
  }

  /** The alarm has fired, or was deleted with everything else. */
  clear(): void {
    this.#at = undefined;
  }

  /** Makes sure that the object wakes at `time` or earlier. Infinity does nothing. */
  by(time: number): void {
    if (time === Number.POSITIVE_INFINITY || (this.#at !== undefined && this.#at <= time)) return;
    this.set(time);
  }

  /** Wakes the object at `time`, and not earlier. */
  set(time: number): void {
    this.#at = Math.min(time, Date.now() + FARTHEST_MS);
    void this.#storage.setAlarm(this.#at);
  }
}
