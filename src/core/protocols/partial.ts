const NOTHING = new Uint8Array(0);

/** Bytes that are still incomplete, with room for more: they may arrive one by one, and are not copied each time. */
export class Partial {
  #buffer = NOTHING;
  #length = 0;

  get length(): number {
    return this.#length;
  }

  /** The bytes from this position on. Stays as it is, whatever is added or cleared. */
  from(start: number): Uint8Array {
    return this.#buffer.subarray(start, this.#length);
  }

  add(bytes: Uint8Array): void {
    const length = this.#length + bytes.length;
    if (length > this.#buffer.length) {
      const grown = new Uint8Array(Math.max(length, 2 * this.#buffer.length));
      grown.set(this.from(0));
      this.#buffer = grown;
    }
    this.#buffer.set(bytes, this.#length);
    this.#length = length;
  }

  clear(): void {
    this.#buffer = NOTHING;
    this.#length = 0;
  }
}
