/** Enough to draw a different sample each time, and few enough to keep in memory. */
const RESERVOIR = 128;

/**
 * How many keys a shard lists, and a uniformly random part of them, kept up to date as keys come and go. So neither a
 * count nor a sample reads the table: it is read once when the shard wakes, and again only when most of the random
 * part has gone.
 */
export class Census {
  #count = 0;
  #reservoir: string[] = [];
  readonly #random: () => number;

  constructor(keys: Iterable<string>, random: () => number = Math.random) {
    this.#random = random;
    for (const key of keys) this.add(key);
  }

  get count(): number {
    return this.#count;
  }

  /** Too little is left of the random part: count again. */
  get isWornOut(): boolean {
    const needed = this.#count <= RESERVOIR ? this.#count : RESERVOIR / 8;
    return this.#reservoir.length < needed;
  }

  /** A key that was not listed is. */
  add(key: string): void {
    this.#count += 1;
    if (this.#reservoir.length < RESERVOIR && this.#reservoir.length === this.#count - 1) this.#reservoir.push(key);
    else if (this.#random() * this.#count < this.#reservoir.length)
      this.#reservoir[Math.floor(this.#random() * this.#reservoir.length)] = key;
  }

  /** A key that was listed is no longer. */
  remove(key: string): void {
    this.#count -= 1;
    const index = this.#reservoir.indexOf(key);
    if (index === -1) return;
    const last = this.#reservoir.pop();
    if (last !== undefined && index < this.#reservoir.length) this.#reservoir[index] = last;
  }

  /** At most `max` keys, drawn at random. All of them if there are no more than `max`, and `max` is at most 128. */
  sample(max: number): string[] {
    const drawn = [...this.#reservoir];
    const size = Math.min(max, drawn.length);
    for (let index = 0; index < size; index += 1) {
      const other = index + Math.floor(this.#random() * (drawn.length - index));
      [drawn[index], drawn[other]] = [drawn[other] as string, drawn[index] as string];
    }
    return drawn.slice(0, size);
  }
}
