import type { NoticeAnswer, Observation } from "../engine/index.ts";
import type { Counting } from "../metrics/tally.ts";

const NOTIFICATION_RESULTS = { taken: "picked_up", noted: "noted", gone: "gone" } as const;

/** Turns what happened at one key into the service's counters and histograms. */
export class KeyMeter {
  readonly #meter: Counting;

  constructor(meter: Counting) {
    this.#meter = meter;
  }

  /** `limit` is the key's: a key of limit 1 is a lock. */
  countAll(observations: readonly Observation[], limit: number): void {
    const kind = limit === 1 ? "lock" : "semaphore";
    for (const observation of observations) this.#count(observation, kind);
  }

  answered(answer: NoticeAnswer): void {
    if (answer !== "later") this.#meter.count("notifications_total", { result: NOTIFICATION_RESULTS[answer] });
  }

  /** Counts a renewal of a key that does not exist and therefore has no limit. */
  renewedNothing(): void {
    this.#meter.count("renewals_total", { kind: "lock", result: "error" });
  }

  pruned(): void {
    this.#meter.count("keys_pruned_total", {});
  }

  #count(observation: Observation, kind: "lock" | "semaphore"): void {
    switch (observation.type) {
      case "granted":
        this.#meter.count("grants_total", { kind, how: observation.how });
        this.#meter.observe("lock_wait_seconds", { kind }, observation.waitMs / 1000);
        return;
      case "ended":
        this.#meter.count("releases_total", { kind, reason: observation.reason });
        if (observation.holdMs !== undefined)
          this.#meter.observe("lock_hold_seconds", { kind }, observation.holdMs / 1000);
        return;
      case "renewed":
        this.#meter.count("renewals_total", { kind, result: observation.result });
        return;
      case "timeout":
        this.#meter.count("acquire_timeouts_total", { kind });
        return;
      case "handed_over_late":
        this.#meter.observe("expiry_lateness_seconds", {}, observation.ms / 1000);
        return;
      case "notice_repeated":
        this.#meter.count("notifications_total", { result: "retried" });
        return;
    }
  }
}
