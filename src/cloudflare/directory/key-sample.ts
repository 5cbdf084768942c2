/** Several samples, so that they can change, and few enough to keep in memory. */
const RESERVOIR = 128;

/**
 * How many keys a shard lists, and a uniformly random part of them, kept up to date as keys come and go. So neither a
 * count nor a sample reads the table: it is read once when the shard wakes, and again only when most of the random
 * part has gone.
 */
export class KeySample {
  #count = 0;
  #reservoir: string[] = [];
  #samples = 0;
  readonly #random: () => number;

  constructor(keys: Iterable<string>, random: () => number = Math.random) {
    this.#random = random;
    for (const key of keys) this.add(key);
    // The first keys are in the order of the table.
    const all = this.#reservoir;
    for (let index = all.length - 1; index > 0; index -= 1) {
      const other = Math.floor(this.#random() * (index + 1));
      [all[index], all[other]] = [all[other] as string, all[index] as string];
    }
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

  /**
   * At most `max` random keys; all of them if the shard lists no more than 128. As far as possible they are the same as
   * last time, because keys that were asked a moment ago are awake and cost little: one of them changes every fourth
   * time.
   */
  sample(max: number): string[] {
    const all = this.#reservoir;
    if (all.length <= max) return [...all];
    const start = Math.floor(this.#samples++ / 4) % all.length;
    return [...all.slice(start), ...all.slice(0, start)].slice(0, max);
  }
}
