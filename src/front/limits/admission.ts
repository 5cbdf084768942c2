export interface Arrival {
  /** Addresses take turns. */
  readonly address: string;
  /** The client resumes a session: its grace period is running. */
  readonly isResuming: boolean;
  /** Aborts when the client hangs up: it leaves the queue then. */
  readonly signal?: AbortSignal | undefined;
}

/** Makes room for the next connection. Idempotent. */
export type Release = () => void;

export interface AdmissionLimits {
  /** Connections admitted concurrently. */
  readonly maxInFlight: number;
  /** A connection that takes longer, such as one with a wrong token, does not keep others waiting. */
  readonly maxTurnMs: number;
  /** A connection that waits longer is refused. */
  readonly maxWaitMs: number;
}

/**
 * workerd opens connections one after the other, in a few milliseconds each: more in flight would not be opened sooner,
 * and would delay the requests of connected clients. The default grace period of a session equals the maximum wait.
 */
export const ADMISSION: AdmissionLimits = { maxInFlight: 32, maxTurnMs: 1_000, maxWaitMs: 10_000 };

/** The service cannot accept connections as fast as they arrive. */
export class AdmissionTimeoutError extends Error {
  override readonly name = "AdmissionTimeoutError";

  constructor(maxWaitMs: number) {
    super(`not let in within ${maxWaitMs} ms`);
  }
}

interface Place {
  readonly enter: () => void;
}

/** How long an address has no precedence after a refused resume. */
const DISTRUST_MS = 10_000;

/** Waiting connections by address. Addresses take turns; within one address the order is that of arrival. */
class FairQueue {
  /** The next address comes first. */
  readonly #places = new Map<string, Set<Place>>();

  get size(): number {
    let size = 0;
    for (const places of this.#places.values()) size += places.size;
    return size;
  }

  add(address: string, place: Place): void {
    const places = this.#places.get(address);
    if (places) places.add(place);
    else this.#places.set(address, new Set([place]));
  }

  delete(address: string, place: Place): void {
    const places = this.#places.get(address);
    if (places?.delete(place) && places.size === 0) this.#places.delete(address);
  }

  /** Removes and returns the next connection. */
  next(): Place | undefined {
    for (const [address, places] of this.#places) {
      this.#places.delete(address);
      const [place] = places;
      if (place === undefined) continue;
      places.delete(place);
      if (places.size > 0) this.#places.set(address, places);
      return place;
    }
    return undefined;
  }

  /** Moves all connections of one address to another queue. */
  move(address: string, to: FairQueue): void {
    for (const place of this.#places.get(address) ?? []) to.add(address, place);
    this.#places.delete(address);
  }
}

/**
 * Admits connections at the pace the service can take: a bounded number at a time, resuming ones before new ones.
 * Within each kind addresses take turns, so that one with many connections does not keep the others out. The number of
 * waiting connections is bounded by the caps on connections, which include them.
 *
 * Any client can claim to resume. After a false claim, others with the same claim from the same address wait like new
 * ones, until one of them proves true or some seconds have passed.
 */
export class AdmissionQueue {
  readonly #limits: AdmissionLimits;
  readonly #resuming = new FairQueue();
  readonly #new = new FairQueue();
  /** Connections that claim to resume from distrusted addresses; they alternate with new ones. */
  readonly #doubtful = new FairQueue();
  /** Until when addresses are distrusted, oldest first. */
  readonly #inDoubt = new Map<string, number>();
  #isDoubtfulNext = false;
  #inFlight = 0;

  constructor(limits: AdmissionLimits) {
    this.#limits = limits;
  }

  get inFlight(): number {
    return this.#inFlight;
  }

  get waiting(): number {
    return this.#resuming.size + this.#new.size + this.#doubtful.size;
  }

  /**
   * Resolves when it is this connection's turn; the result must be called when it has been admitted or has failed.
   * Rejects with an `AdmissionTimeoutError` if that takes too long, and with the signal's reason if the client hangs up
   * first.
   */
  enter({ address, isResuming, signal }: Arrival): Promise<Release> {
    const { maxInFlight, maxWaitMs } = this.#limits;
    return new Promise((resolve, reject) => {
      if (signal?.aborted) throw signal.reason;
      if (this.#inFlight < maxInFlight) {
        resolve(this.#admit());
        return;
      }
      const leave = () => {
        clearTimeout(timer);
        signal?.removeEventListener("abort", hangUp);
        for (const queue of isResuming ? [this.#resuming, this.#doubtful] : [this.#new]) queue.delete(address, place);
      };
      const hangUp = () => {
        leave();
        reject(signal?.reason);
      };
      const timer = setTimeout(() => {
        leave();
        reject(new AdmissionTimeoutError(maxWaitMs));
      }, maxWaitMs);
      const place: Place = {
        enter: () => {
          leave();
          resolve(this.#admit());
        },
      };
      this.#queueFor(address, isResuming).add(address, place);
      signal?.addEventListener("abort", hangUp);
    });
  }

  /** A client of this address had no session to resume. */
  resumeRefused(address: string): void {
    const now = performance.now();
    for (const [other, until] of this.#inDoubt) {
      if (until > now) break;
      this.#inDoubt.delete(other);
    }
    this.#inDoubt.delete(address);
    this.#inDoubt.set(address, now + DISTRUST_MS);
    this.#resuming.move(address, this.#doubtful);
  }

  /** A client of this address has resumed its session. */
  resumed(address: string): void {
    if (this.#inDoubt.delete(address)) this.#doubtful.move(address, this.#resuming);
  }

  #queueFor(address: string, isResuming: boolean): FairQueue {
    if (!isResuming) return this.#new;
    return (this.#inDoubt.get(address) ?? 0) > performance.now() ? this.#doubtful : this.#resuming;
  }

  #next(): Place | undefined {
    const resuming = this.#resuming.next();
    if (resuming) return resuming;
    const doubtful = this.#isDoubtfulNext ? this.#doubtful.next() : undefined;
    const next = doubtful ?? this.#new.next();
    this.#isDoubtfulNext = doubtful === undefined && next !== undefined;
    return next ?? this.#doubtful.next();
  }

  #admit(): Release {
    this.#inFlight += 1;
    let isReleased = false;
    const release = () => {
      if (isReleased) return;
      isReleased = true;
      clearTimeout(timer);
      this.#inFlight -= 1;
      this.#next()?.enter();
    };
    const timer = setTimeout(release, this.#limits.maxTurnMs);
    return release;
  }
}
