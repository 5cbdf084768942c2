import { type Clock, elapsedMs, type Moment, momentOf } from "../clock.ts";
import { LATE_READ_MS, PROBE_AFTER_FREEZE_MS } from "../limits.ts";

export interface HeartbeatEvents {
  /** Sends a request that is always answered. */
  ping(): void;
  /** A ping that was sent at this moment has been answered. */
  proved(sentAt: Moment): void;
  /** The server has stopped answering. */
  drop(): void;
}

/** Detects a dead connection within two intervals: each ping must be answered before the next. */
export class Heartbeat {
  readonly #clock: Clock;
  readonly #everyMs: number;
  readonly #events: HeartbeatEvents;
  #unanswered: Moment | undefined;
  #armedAt: Moment;
  #armedMs = 0;
  #cancel: () => void = () => {};

  constructor(clock: Clock, everyMs: number, events: HeartbeatEvents) {
    this.#clock = clock;
    this.#everyMs = everyMs;
    this.#events = events;
    this.#armedAt = momentOf(clock);
    this.#arm(everyMs, () => this.#ping());
  }

  answered(): void {
    if (this.#unanswered) this.#events.proved(this.#unanswered);
    this.#unanswered = undefined;
  }

  /** Other input came: the connection works, but the input may be older than the last ping, so it proves nothing. */
  received(): void {
    if (this.#unanswered) this.#arm(this.#everyMs, () => this.#readFirst());
  }

  /** Requires an answer within the time, or within what is left for a ping in flight: probing often delays nothing. */
  probe(withinMs: number): void {
    if (!this.#unanswered) {
      this.#unanswered = momentOf(this.#clock);
      this.#events.ping();
    } else if (this.#armedMs - elapsedMs(this.#clock, this.#armedAt) <= withinMs) return;
    this.#arm(withinMs, () => (this.#unanswered ? this.#readFirst() : this.#ping()));
  }

  stop(): void {
    this.#cancel();
  }

  #readFirst(): void {
    this.#arm(LATE_READ_MS, () => (this.#unanswered ? this.#events.drop() : this.#ping()));
  }

  #ping(): void {
    const wasSuspended = elapsedMs(this.#clock, this.#armedAt) > 2 * this.#everyMs;
    this.probe(wasSuspended ? Math.min(PROBE_AFTER_FREEZE_MS, this.#everyMs) : this.#everyMs);
  }

  #arm(ms: number, call: () => void): void {
    this.#cancel();
    this.#armedAt = momentOf(this.#clock);
    this.#armedMs = ms;
    this.#cancel = this.#clock.after(ms, call);
  }
}
