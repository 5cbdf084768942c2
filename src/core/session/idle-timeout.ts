import type { SessionContext } from "./context.ts";

/** What is stored of a session without a socket, besides the keys it has used. */
interface StoredSession {
  readonly address: string;
  readonly label: string | undefined;
  /** When the client was last seen, to within `lagMs`. */
  readonly seenAt: number;
}

/** Sightings closer together than this are not stored: precision is not worth the extra row. */
const MAX_LAG_MS = 10_000;

/** When a session without a socket ends: once its client has been silent for twice the idle time. */
export class IdleTimeout {
  readonly #context: SessionContext;
  readonly #idleMs: number;
  readonly #lagMs: number;
  #stored: StoredSession | undefined;
  #seenAt: number;

  constructor(context: SessionContext) {
    this.#context = context;
    this.#idleMs = context.config.httpSessionIdleMs;
    this.#lagMs = Math.min(this.#idleMs / 8, MAX_LAG_MS);
    this.#stored = context.records.get("life") as StoredSession | undefined;
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

  begin(address: string, label: string | undefined): void {
    const { now } = this.#context;
    this.#seenAt = now;
    this.#store({ address, label, seenAt: now });
  }

  get isOver(): boolean {
    return this.#context.now >= this.endsAt;
  }

  /** The client is alive. */
  saw(): void {
    const { now } = this.#context;
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

  #store(session: StoredSession): void {
    this.#stored = session;
    this.#context.emit({ type: "put", name: "life", value: session });
  }
}
