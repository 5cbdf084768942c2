import type { Loss } from "../calls/notices.ts";

interface Remembered extends Loss {
  readonly at: number;
}

const LOSSES = "losses";
const MAX_LOSSES = 64;
/** Beyond the grace: a client counts it from its last answer, which may be older than the loss of its socket. */
const MARGIN_MS = 30_000;

/**
 * The losses that the client of a resumable session may not have heard of, because it had no socket, or one that was dead
 * already. They are stored: a deploy that cuts its socket takes the object's memory too. Nothing is before the first one.
 */
export class RecentLosses {
  readonly #kv: SyncKvStorage;
  readonly #keptMs: number;

  constructor({ kv }: DurableObjectStorage, graceMs: number) {
    this.#kv = kv;
    this.#keptMs = graceMs + MARGIN_MS;
  }

  remember({ key, token, reason }: Loss, now: number): void {
    const losses = [...this.at(now), { key, token, reason, at: now }];
    this.#kv.put(LOSSES, losses.slice(-MAX_LOSSES));
  }

  /** Those that still matter at this time, oldest first. */
  at(now: number): readonly Loss[] {
    const losses = this.#kv.get<readonly Remembered[]>(LOSSES) ?? [];
    return losses.filter(({ at }) => at > now - this.#keptMs);
  }
}
