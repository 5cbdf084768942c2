export type RefreshOutcome =
  | { readonly type: "done" }
  /** The next attempt may succeed. */
  | { readonly type: "failed"; readonly reason: string }
  | { readonly type: "lost"; readonly reason: string };

/** Performs one refresh. It should give up after the timeout, so that there is a reason to report. */
export type Refresh = (timeoutSeconds: number) => Promise<RefreshOutcome>;

const MAX_INTERVAL_MS = 300_000;
const MIN_INTERVAL_MS = 1_000;
const RETRY_MS = 1_000;
/** After this part of the stale time without a refresh, others may soon take the file: the lock counts as lost. */
const SAFE_PART = 0.9;
/** The first refresh gets at least this time, even if the stale time is as short as the interval. */
const MIN_REFRESH_MS = 100;
/** A refresh gives up this long before the lock counts as lost. */
const GIVE_UP_EARLIER_MS = 50;
const MAX_TIMER_MS = 2 ** 31 - 1;

/**
 * Refreshes a lock file well within its stale time, until it is stopped or the lock is lost. A refresh that hangs does
 * not delay the report of a loss. With a stale time of 0 there is nothing to do.
 */
export class Refresher {
  /** Resolves with the reason when the lock is lost. */
  readonly lost: Promise<string>;
  readonly #refresh: Refresh;
  readonly #intervalMs: number;
  readonly #safeMs: number;
  #tellLost: (reason: string) => void = () => {};
  #isLost = false;
  #isStopped = false;
  #next: NodeJS.Timeout | undefined;
  #deadline: NodeJS.Timeout | undefined;
  #refreshedAt = performance.now();
  /** Why the last refresh failed; undefined while one is running. */
  #failure: string | undefined;
  #underWay: Promise<void> = Promise.resolve();

  constructor(refresh: Refresh, staleSeconds: number) {
    const staleMs = staleSeconds * 1000;
    this.#refresh = refresh;
    this.#intervalMs = Math.max(MIN_INTERVAL_MS, Math.min(staleMs / 3, MAX_INTERVAL_MS));
    this.#safeMs = Math.max(staleMs * SAFE_PART, this.#intervalMs + MIN_REFRESH_MS);
    this.lost = new Promise((resolve) => {
      this.#tellLost = (reason) => {
        this.#isLost = true;
        this.#disarm();
        resolve(reason);
      };
    });
    if (staleSeconds > 0) {
      this.#armNext(this.#intervalMs);
      this.#armDeadline();
    }
  }

  get isLost(): boolean {
    return this.#isLost;
  }

  /** Resolves when no refresh is running. */
  async stop(): Promise<void> {
    this.#isStopped = true;
    this.#disarm();
    await this.#underWay;
  }

  #disarm(): void {
    clearTimeout(this.#next);
    clearTimeout(this.#deadline);
  }

  #armNext(afterMs: number): void {
    if (this.#isStopped || this.#isLost) return;
    this.#next = setTimeout(() => {
      this.#underWay = this.#turn();
    }, afterMs);
  }

  #armDeadline(): void {
    if (this.#isStopped || this.#isLost) return;
    clearTimeout(this.#deadline);
    this.#deadline = setTimeout(
      () => {
        if (this.#leftMs() > 0) this.#armDeadline();
        else this.#tellLost(`it could not be refreshed in time (${this.#failure ?? "a refresh did not end"})`);
      },
      // Node 24 warns of a negative time on standard error, which is the command's.
      Math.max(0, Math.min(this.#leftMs(), MAX_TIMER_MS)),
    );
  }

  /** How long the lock is safe without another refresh. */
  #leftMs(): number {
    return this.#refreshedAt + this.#safeMs - performance.now();
  }

  async #turn(): Promise<void> {
    const since = performance.now();
    this.#failure = undefined;
    const outcome = await this.#refresh(Math.max(0, this.#leftMs() - GIVE_UP_EARLIER_MS) / 1000);
    if (this.#isLost) return;
    switch (outcome.type) {
      case "done":
        this.#refreshedAt = since;
        this.#armDeadline();
        this.#armNext(this.#intervalMs);
        return;
      case "failed":
        this.#failure = outcome.reason;
        this.#armNext(RETRY_MS);
        return;
      case "lost":
        this.#tellLost(outcome.reason);
    }
  }
}
