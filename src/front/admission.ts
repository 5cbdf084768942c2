export interface Arrival {
  /** It takes up a session that it had before: its grace is running. */
  readonly isResuming: boolean;
  /** Aborts when the client hangs up: it then leaves the queue. */
  readonly signal?: AbortSignal | undefined;
}

/** Makes room for the next. Calling it again changes nothing. */
export type Release = () => void;

export interface AdmissionLimits {
  /** So many are let in at a time. */
  readonly maxInFlight: number;
  /** One that takes longer, such as one with a wrong token, does not keep others waiting. */
  readonly maxTurnMs: number;
  /** A connection that waits longer is refused. */
  readonly maxWaitMs: number;
}

/**
 * workerd opens connections one after the other, in a few milliseconds each: more in flight would not get in sooner, and would
 * delay the requests of everybody who is in already. The default grace of a session is as long as the wait.
 */
export const ADMISSION: AdmissionLimits = { maxInFlight: 32, maxTurnMs: 1_000, maxWaitMs: 10_000 };

/** The service cannot take connections as fast as they come. */
export class AdmissionTimeoutError extends Error {
  override readonly name = "AdmissionTimeoutError";

  constructor(maxWaitMs: number) {
    super(`not let in within ${maxWaitMs} ms`);
  }
}

interface Place {
  readonly enter: () => void;
}

/**
 * Lets connections in at the pace the service can take: a bounded number at a time, those that resume before new ones,
 * each kind in the order of its arrival. How many wait is bounded by the caps on connections, in which they count.
 */
export class AdmissionQueue {
  readonly #limits: AdmissionLimits;
  /** Sets keep the order of arrival, and a client that hangs up is removed without a search. */
  readonly #resuming = new Set<Place>();
  readonly #new = new Set<Place>();
  #inFlight = 0;

  constructor(limits: AdmissionLimits) {
    this.#limits = limits;
  }

  get inFlight(): number {
    return this.#inFlight;
  }

  get waiting(): number {
    return this.#resuming.size + this.#new.size;
  }

  /**
   * Resolves when it is this one's turn; the result must be called when it has been let in, or has failed. Rejects with an
   * `AdmissionTimeoutError` if that takes too long, and with the signal's reason if the client hangs up before.
   */
  enter({ isResuming, signal }: Arrival): Promise<Release> {
    const { maxInFlight, maxWaitMs } = this.#limits;
    return new Promise((resolve, reject) => {
      if (signal?.aborted) throw signal.reason;
      if (this.#inFlight < maxInFlight) {
        resolve(this.#admit());
        return;
      }
      const queue = isResuming ? this.#resuming : this.#new;
      const leave = () => {
        clearTimeout(timer);
        signal?.removeEventListener("abort", hangUp);
        queue.delete(place);
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
      queue.add(place);
      signal?.addEventListener("abort", hangUp);
    });
  }

  #admit(): Release {
    this.#inFlight += 1;
    let isReleased = false;
    const release = () => {
      if (isReleased) return;
      isReleased = true;
      clearTimeout(timer);
      this.#inFlight -= 1;
      const [next] = this.#resuming.size > 0 ? this.#resuming : this.#new;
      next?.enter();
    };
    const timer = setTimeout(release, this.#limits.maxTurnMs);
    return release;
  }
}
