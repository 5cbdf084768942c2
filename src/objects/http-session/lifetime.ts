/** What is stored of an HTTP session besides the keys it has used. */
interface StoredLife {
  readonly address: string;
  readonly label: string | undefined;
  /** When the client was last seen, to within `lagMs`. */
  readonly seenAt: number;
}

const LIFE = "life";
/** Sightings closer together than this are not stored: precision is not worth the extra row. */
const LONGEST_LAG_MS = 10_000;

/** How long an HTTP session lives: until its client has been silent for twice the idle time. */
export class HttpLifetime {
  readonly #kv: SyncKvStorage;
  readonly #idleMs: number;
  readonly #lagMs: number;
  #stored: StoredLife | undefined;
  #seenAt: number;

  constructor({ kv }: DurableObjectStorage, idleMs: number) {
    this.#kv = kv;
    this.#idleMs = idleMs;
    this.#lagMs = Math.min(idleMs / 8, LONGEST_LAG_MS);
    this.#stored = kv.get<StoredLife>(LIFE);
    // Before a restart the client may have been seen a little later than was stored.
    this.#seenAt = (this.#stored?.seenAt ?? 0) + this.#lagMs;
  }

  get hasBegun(): boolean {
    return this.#stored !== undefined;
  }

  get address(): string {
    return this.#stored?.address ?? "";
  }

  /** When the session ends unless its client is seen again. */
  get endsAt(): number {
    return this.#idleMs === 0 ? Number.POSITIVE_INFINITY : this.#seenAt + 2 * this.#idleMs + 1;
  }

  begin(address: string, label: string | undefined, now: number): void {
    this.#seenAt = now;
    this.#store({ address, label, seenAt: now });
  }

  isOver(now: number): boolean {
    return now >= this.endsAt;
  }

  saw(now: number): void {
    this.#seenAt = Math.max(this.#seenAt, now);
    const stored = this.#stored;
    if (this.#idleMs > 0 && stored && now - stored.seenAt >= this.#lagMs) this.#store({ ...stored, seenAt: now });
  }

  /** True if the label has changed. */
  relabel(label: string): boolean {
    const stored = this.#stored;
    if (!stored || stored.label === label) return false;
    this.#store({ ...stored, label });
    return true;
  }

  #store(life: StoredLife): void {
    this.#stored = life;
    this.#kv.put(LIFE, life);
  }
}
