import type { SessionContext } from "./context.ts";
import type { Loss } from "./effects.ts";
import type { Timer } from "./timers.ts";

interface Stored {
  readonly secret: string;
  /** The address under which the directory lists the session. */
  readonly address: string;
  readonly detachedAt: number | undefined;
}

interface RememberedLoss extends Loss {
  readonly at: number;
}

/** An absence is stored after this part of the grace period; a client that resumes sooner costs no write. */
const UNKEPT_PART = 1 / 2;
/** As many as may be in flight at once: a repeated steal was in flight when its socket was lost. */
const MAX_STEALS = 1_024;
const MAX_LOSSES = 64;
/** Added to the grace period: a client counts it from its last answer, which may precede the loss of its socket. */
const LOSS_MARGIN_MS = 30_000;

/**
 * Whether, and until when, a session outlives the loss of its socket, and what its client must be told or may not
 * repeat then. This is stored, so it survives the loss of the object too: a deploy cuts sockets and clears memory.
 * After a crash of the service all clients are disconnected and most resume at once. To save those writes, an absence
 * is kept in memory first; after another crash it is detected again.
 */
export class Resumption {
  readonly #context: SessionContext;
  #stored: Stored | undefined;
  #detachedAt: number | undefined;
  #timer: Timer | undefined;
  /** As stored; undefined until they are needed. */
  #steals: readonly string[] | undefined;
  #losses: readonly RememberedLoss[] | undefined;

  constructor(context: SessionContext) {
    this.#context = context;
    this.#stored = context.records.get("resumption") as Stored | undefined;
    this.#detachedAt = this.#stored?.detachedAt;
  }

  /** The client has asked for resumption. */
  get isOn(): boolean {
    return this.#stored !== undefined;
  }

  get address(): string | undefined {
    return this.#stored?.address;
  }

  /** What a client must show to resume the session. */
  get secret(): string | undefined {
    return this.#stored?.secret;
  }

  /** When a session without a socket ends; Infinity while it has one. */
  get endsAt(): number {
    const { resumeGraceMs } = this.#context.config;
    return this.#detachedAt === undefined ? Number.POSITIVE_INFINITY : this.#detachedAt + resumeGraceMs;
  }

  /**
   * Makes the session resumable: the credential for that, the same on every call. Undefined if resumption is off, or if
   * nothing can be stored.
   */
  enable(address: string): string | undefined {
    const { session, config, random, isStorageWell } = this.#context;
    if (config.resumeGraceMs === 0) return undefined;
    if (!this.#stored) {
      if (!isStorageWell()) return undefined;
      this.#store({ secret: random(), address, detachedAt: undefined });
    }
    return `${session}.${this.secret}`;
  }

  /** The socket is lost: starts the grace period, unless it is already running. */
  detach(): void {
    if (!this.#stored) return;
    const { now, timers, config } = this.#context;
    this.#detachedAt ??= now;
    if (this.#stored.detachedAt === undefined)
      this.#timer ??= timers.at(now + config.resumeGraceMs * UNKEPT_PART, () => this.keep());
  }

  /** Stores the absence, if there is one: from here on the session ends in time even if its object is lost. */
  keep(): void {
    this.end();
    if (!this.#stored || this.#detachedAt === undefined) return;
    this.#store({ ...this.#stored, detachedAt: this.#detachedAt });
    this.#context.emit({ type: "wake", by: this.endsAt });
  }

  /** The client is back. Costs a write only if its absence was stored. */
  attach(): void {
    this.end();
    this.#detachedAt = undefined;
    if (this.#stored) this.#store({ ...this.#stored, detachedAt: undefined });
  }

  /** Nothing more is stored by itself. */
  end(): void {
    this.#context.timers.stop(this.#timer);
    this.#timer = undefined;
  }

  /**
   * Records a steal durably before its key receives it. False if it was already recorded. A key recognises a repeated
   * request only while it still holds something for it; a steal it does not recognise would take the lock from its
   * current holder.
   */
  beginsSteal(tag: string): boolean {
    this.#steals ??= (this.#context.records.get("steals") as readonly string[] | undefined) ?? [];
    if (this.#steals.includes(tag)) return false;
    this.#steals = [...this.#steals, tag].slice(-MAX_STEALS);
    this.#context.emit({ type: "put", name: "steals", value: this.#steals });
    return true;
  }

  /** Stores a loss that the client may not have been told of, because it had no socket or a dead one. */
  rememberLoss({ key, token, reason }: Loss): void {
    this.#losses = [...this.#recent(), { key, token, reason, at: this.#context.now }].slice(-MAX_LOSSES);
    this.#context.emit({ type: "put", name: "losses", value: this.#losses });
  }

  /** Losses that a resumed client may not have been told of, oldest first. */
  recentLosses(): readonly Loss[] {
    return this.#recent();
  }

  #recent(): readonly RememberedLoss[] {
    const { records, now, config } = this.#context;
    this.#losses ??= (records.get("losses") as readonly RememberedLoss[] | undefined) ?? [];
    return this.#losses.filter(({ at }) => at > now - config.resumeGraceMs - LOSS_MARGIN_MS);
  }

  #store(stored: Stored): void {
    const isNews = !this.#stored || stored.detachedAt !== this.#stored.detachedAt;
    this.#stored = stored;
    if (isNews) this.#context.emit({ type: "put", name: "resumption", value: stored });
  }
}
