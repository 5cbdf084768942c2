export type RefreshOutcome =
  | { readonly type: "done" }
  /** It may work next time. */
  | { readonly type: "failed"; readonly reason: string }
  | { readonly type: "lost"; readonly reason: string };

const MAX_INTERVAL_MS = 300_000;
const MIN_INTERVAL_MS = 1_000;
const RETRY_MS = 1_000;
/** Without a refresh for this part of the stale time, others may soon take the file: better to stop before. */
const SAFE_PART = 0.9;

/** Refreshes a lock file well within its stale time, until it is stopped or the lock is lost. Nothing to do for 0. */
export class Refresher {
  /** Resolves with the reason when the lock is lost. */
  readonly lost: Promise<string>;
  readonly #refresh: () => Promise<RefreshOutcome>;
  readonly #staleMs: number;
  #tellLost: (reason: string) => void = () => {};
  #isLost = false;
  #isStopped = false;
  #timer: NodeJS.Timeout | undefined;
  #refreshedAt = performance.now();
  #underWay: Promise<void> = Promise.resolve();

  constructor(refresh: () => Promise<RefreshOutcome>, staleSeconds: number) {
    this.#refresh = refresh;
    this.#staleMs = staleSeconds * 1000;
    this.lost = new Promise((resolve) => {
      this.#tellLost = (reason) => {
        this.#isLost = true;
        resolve(reason);
      };
    });
    if (staleSeconds > 0) this.#arm(Math.max(MIN_INTERVAL_MS, Math.min(this.#staleMs / 3, MAX_INTERVAL_MS)));
  }

  get isLost(): boolean {
    return this.#isLost;
  }

  /** Resolves when no refresh is under way any more. */
  async stop(): Promise<void> {
    this.#isStopped = true;
    clearTimeout(this.#timer);
    await this.#underWay;
  }

  #arm(intervalMs: number, nextMs = intervalMs): void {
    if (this.#isStopped || this.#isLost) return;
    this.#timer = setTimeout(() => {
      this.#underWay = this.#turn(intervalMs);
    }, nextMs);
  }

  async #turn(intervalMs: number): Promise<void> {
    const since = performance.now();
    const outcome = await this.#refresh();
    if (outcome.type === "done") {
      this.#refreshedAt = since;
      this.#arm(intervalMs);
    } else if (outcome.type === "lost") this.#tellLost(outcome.reason);
    else if (performance.now() - this.#refreshedAt >= this.#staleMs * SAFE_PART) {
      this.#tellLost(`it could not be refreshed in time (${outcome.reason})`);
    } else this.#arm(intervalMs, RETRY_MS);
  }
}
