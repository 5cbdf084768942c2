import type { Loss } from "../calls/notices.ts";

interface Remembered extends Loss {
  readonly at: number;
}

const LOSSES = "losses";
const MAX_LOSSES = 64;
/** Added to the grace period: a client counts it from its last answer, which may precede the loss of its socket. */
const MARGIN_MS = 30_000;

/**
 * Losses that the client of a resumable session may not have been told of, because it had no socket or a dead one. They
 * are stored, because a deploy that cuts the socket also clears the object's memory. Nothing is written before the
 * first loss.
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

  /** Losses that are still relevant at this time, oldest first. */
  at(now: number): readonly Loss[] {
    const losses = this.#kv.get<readonly Remembered[]>(LOSSES) ?? [];
    return losses.filter(({ at }) => at > now - this.#keptMs);
  }
}
