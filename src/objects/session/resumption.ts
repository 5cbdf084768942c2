import { sameSecret } from "../../auth/secrets.ts";
import { randomHex } from "../../hex.ts";
import type { WakeUp } from "../awake/wake-up.ts";

interface Stored {
  readonly secret: string;
  /** Where the directory has the session. */
  readonly address: string;
  readonly detachedAt: number | undefined;
}

const RESUMPTION = "resumption";
/** A client has this part of the grace to come back before its absence is written down. */
const UNKEPT_PART = 1 / 2;

/**
 * Whether, and until when, a session outlives the loss of its socket. It is stored, so that it outlives the object too:
 * a deploy cuts sockets and memory alike. After a crash of the service everybody is away, and most are back at once: so
 * that this costs no write, an absence is kept in memory first. Should the service crash again, it is found again.
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

  /** The client has asked for it. */
  get isOn(): boolean {
    return this.#stored !== undefined;
  }

  /** Nothing would be forgotten with the object: its socket is there, or that it is not is stored. */
  get isKept(): boolean {
    return this.#stored?.detachedAt === this.#detachedAt;
  }

  get address(): string | undefined {
    return this.#stored?.address;
  }

  /** When a session without socket is over; Infinity while it has one. */
  get endsAt(): number {
    return this.#detachedAt === undefined ? Number.POSITIVE_INFINITY : this.#detachedAt + this.#graceMs;
  }

  /** The secret that takes the session up again; the same however often it is asked for. Undefined where it is off. */
  enable(address: string): string | undefined {
    if (this.#graceMs === 0) return undefined;
    if (!this.#stored) this.#store({ secret: randomHex(16), address, detachedAt: undefined });
    return this.#stored?.secret;
  }

  /** The socket is lost: the grace runs from now on, unless it runs already. */
  detach(now: number): void {
    if (!this.#stored) return;
    this.#detachedAt ??= now;
    if (this.#stored.detachedAt === undefined)
      this.#timer ??= setTimeout(() => this.keep(), this.#graceMs * UNKEPT_PART);
  }

  /** Stores the absence, if there is one: from here on the session ends in time whatever becomes of its object. */
  keep(): void {
    this.#stopTimer();
    if (!this.#stored || this.#detachedAt === undefined) return;
    this.#store({ ...this.#stored, detachedAt: this.#detachedAt });
    this.#wakeUp.by(this.endsAt);
    this.#whenKept();
  }

  /** The client is back. Costs a write only where its absence was stored. */
  attach(): void {
    this.#stopTimer();
    this.#detachedAt = undefined;
    if (this.#stored) this.#store({ ...this.#stored, detachedAt: undefined });
  }

  /** The session is over: nothing is stored any more. */
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
