/**
 * A `Map` for what mostly has one entry, time and again. V8 builds a new table whenever a `Map` becomes empty, and if the
 * map is old, it does so where only a full garbage collection comes by.
 */
export class SmallMap<K, V> {
  /** The only entry, unless there have been more since the map was empty. */
  #only: { key: K; value: V } | undefined;
  #all: Map<K, V> | undefined;

  get size(): number {
    return this.#all ? this.#all.size : Number(this.#only !== undefined);
  }

  has(key: K): boolean {
    return this.#all ? this.#all.has(key) : this.#only?.key === key;
  }

  get(key: K): V | undefined {
    if (this.#all) return this.#all.get(key);
    return this.#only?.key === key ? this.#only.value : undefined;
  }

  set(key: K, value: V): void {
    if (this.#all) this.#all.set(key, value);
    else if (!this.#only) this.#only = { key, value };
    else if (this.#only.key === key) this.#only.value = value;
    else {
      this.#all = new Map([
        [this.#only.key, this.#only.value],
        [key, value],
      ]);
      this.#only = undefined;
    }
  }

  delete(key: K): void {
    if (!this.#all) {
      if (this.#only?.key === key) this.#only = undefined;
    } else if (this.#all.delete(key) && this.#all.size === 0) this.#all = undefined;
  }

  clear(): void {
    this.#only = undefined;
    this.#all = undefined;
  }

  /** In the order in which they were added. */
  keys(): IterableIterator<K> {
    if (this.#all) return this.#all.keys();
    return (this.#only ? [this.#only.key] : []).values();
  }

  values(): IterableIterator<V> {
    if (this.#all) return this.#all.values();
    return (this.#only ? [this.#only.value] : []).values();
  }
}
