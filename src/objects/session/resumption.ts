import { sameSecret } from "../../auth/secrets.ts";
import { randomHex } from "../../hex.ts";
import type { WakeUp } from "../awake/wake-up.ts";

interface Stored {
  readonly secret: string;
  /** The address under which the directory lists the session. */
  readonly address: string;
  readonly detachedAt: number | undefined;
}

const RESUMPTION = "resumption";
/** An absence is stored after this part of the grace period; a client that resumes sooner costs no write. */
const UNKEPT_PART = 1 / 2;

/**
 * Whether, and until when, a session outlives the loss of its socket. This is stored, so it survives the loss of the
 * object too: a deploy cuts sockets and clears memory. After a crash of the service all clients are disconnected and
 * most resume at once. To save those writes, an absence is kept in memory first; after another crash it is detected
 * again.
 */
export class Resumption {
  readonly #kv: SyncKvStorage;
  readonly #wakeUp: Pick<WakeUp, "by">;
  readonly #graceMs: number;
  readonly #whenKept: () => void;
  #stored: Stored | undefined;
  #detachedAt: number | undefined;
  #timer: ReturnType<typeof setTimeout> | undefined;

  /** `whenKept` is called when an absence has been stored. */
  constructor(
    { kv }: DurableObjectStorage,
    wakeUp: Pick<WakeUp, "by">,
    graceMs: number,
    whenKept: () => void = () => {},
  ) {
    this.#kv = kv;
    this.#wakeUp = wakeUp;
    this.#graceMs = graceMs;
    this.#whenKept = whenKept;
    this.#stored = kv.get<Stored>(RESUMPTION);
    this.#detachedAt = this.#stored?.detachedAt;
  }

  /** The client has asked for resumption. */
  get isOn(): boolean {
    return this.#stored !== undefined;
  }

  /** Losing the object would lose nothing: the socket is there, or its absence is stored. */
  get isKept(): boolean {
    return this.#stored?.detachedAt === this.#detachedAt;
  }

  get address(): string | undefined {
    return this.#stored?.address;
  }

  /** When a session without a socket ends; Infinity while it has one. */
  get endsAt(): number {
    return this.#detachedAt === undefined ? Number.POSITIVE_INFINITY : this.#detachedAt + this.#graceMs;
  }

  /** The secret that resumes the session; the same on every call. Undefined if resumption is off. */
  enable(address: string): string | undefined {
    if (this.#graceMs === 0) return undefined;
    if (!this.#stored) this.#store({ secret: randomHex(16), address, detachedAt: undefined });
    return this.#stored?.secret;
  }

  /** The socket is lost: starts the grace period, unless it is already running. */
  detach(now: number): void {
    if (!this.#stored) return;
    this.#detachedAt ??= now;
    if (this.#stored.detachedAt === undefined)
      this.#timer ??= setTimeout(() => this.keep(), this.#graceMs * UNKEPT_PART);
  }

  /** Stores the absence, if there is one: from here on the session ends in time even if its object is lost. */
  keep(): void {
    this.#stopTimer();
    if (!this.#stored || this.#detachedAt === undefined) return;
    this.#store({ ...this.#stored, detachedAt: this.#detachedAt });
    this.#wakeUp.by(this.endsAt);
    this.#whenKept();
  }

  /** The client is back. Costs a write only if its absence was stored. */
  attach(): void {
    this.#stopTimer();
    this.#detachedAt = undefined;
    if (this.#stored) this.#store({ ...this.#stored, detachedAt: undefined });
  }

  /** The session has ended: nothing more is stored. */
  end(): void {
    this.#stopTimer();
  }

  async isRight(secret: string): Promise<boolean> {
    return this.#stored !== undefined && sameSecret(secret, this.#stored.secret);
  }

  #store(stored: Stored): void {
    const isNews = !this.#stored || stored.detachedAt !== this.#stored.detachedAt;
    this.#stored = stored;
    if (isNews) this.#kv.put(RESUMPTION, stored);
  }

  #stopTimer(): void {
    if (this.#timer !== undefined) clearTimeout(this.#timer);
    this.#timer = undefined;
  }
}
