import { randomHex } from "../hex.ts";
import { sameSecret } from "../secrets.ts";

interface Stored {
  readonly secret: string;
  /** Where the directory has the session. */
  readonly address: string;
  readonly detachedAt: number | undefined;
}

const RESUMPTION = "resumption";

/**
 * Whether, and until when, a session outlives the loss of its socket. It is stored, so that it outlives the object too:
 * a deploy cuts sockets and memory alike.
 */
export class Resumption {
  readonly #kv: SyncKvStorage;
  readonly #graceMs: number;
  #stored: Stored | undefined;

  constructor({ kv }: DurableObjectStorage, graceMs: number) {
    this.#kv = kv;
    this.#graceMs = graceMs;
    this.#stored = kv.get<Stored>(RESUMPTION);
  }

  /** The client has asked for it. */
  get isOn(): boolean {
    return this.#stored !== undefined;
  }

  get address(): string | undefined {
    return this.#stored?.address;
  }

  /** When a session without socket is over; Infinity while it has one. */
  get endsAt(): number {
    const detachedAt = this.#stored?.detachedAt;
    return detachedAt === undefined ? Number.POSITIVE_INFINITY : detachedAt + this.#graceMs;
  }

  /** The secret that takes the session up again; the same however often it is asked for. Undefined where it is off. */
  enable(address: string): string | undefined {
    if (this.#graceMs === 0) return undefined;
    const stored = this.#stored ?? { secret: randomHex(16), address, detachedAt: undefined };
    if (!this.#stored) this.#store(stored);
    return stored.secret;
  }

  detach(now: number): void {
    if (this.#stored && this.#stored.detachedAt === undefined) this.#store({ ...this.#stored, detachedAt: now });
  }

  attach(): void {
    if (this.#stored?.detachedAt !== undefined) this.#store({ ...this.#stored, detachedAt: undefined });
  }

  async isRight(secret: string): Promise<boolean> {
    return this.#stored !== undefined && sameSecret(secret, this.#stored.secret);
  }

  #store(stored: Stored): void {
    this.#stored = stored;
    this.#kv.put(RESUMPTION, stored);
  }
}
