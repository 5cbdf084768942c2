import { type Clock, elapsedMs, type Moment, momentOf } from "../clock.ts";
import { LAST_CHANCE_MS, SOON_MS } from "../limits.ts";

export interface Patient {
  /** Sends something that is always answered. */
  beat(): void;
  /** What was sent at that moment has been answered. */
  proved(sentAt: Moment): void;
  /** The server has stopped answering. */
  drop(): void;
}

/** Finds out within two of its intervals that nobody is at the other end: each beat must be answered before the next. */
export class Heartbeat {
  readonly #clock: Clock;
  readonly #everyMs: number;
  readonly #patient: Patient;
  #unanswered: Moment | undefined;
  #armedAt: Moment;
  #armedMs = 0;
  #cancel: () => void = () => {};

  constructor(clock: Clock, everyMs: number, patient: Patient) {
    this.#clock = clock;
    this.#everyMs = everyMs;
    this.#patient = patient;
    this.#armedAt = momentOf(clock);
    this.#arm(everyMs, () => this.#beat());
  }

  heard(): void {
    if (this.#unanswered) this.#patient.proved(this.#unanswered);
    this.#unanswered = undefined;
  }

  /** Something else came: the connection works, but it may have come from before the last beat, so nothing is proved. */
  hears(): void {
    if (this.#unanswered) this.#arm(this.#everyMs, () => this.#giveLastChance());
  }

  /** Wants an answer within that time, or within what is left to a beat under way: asking often puts nothing off. */
  probe(withinMs: number): void {
    if (!this.#unanswered) {
      this.#unanswered = momentOf(this.#clock);
      this.#patient.beat();
    } else if (this.#armedMs - elapsedMs(this.#clock, this.#armedAt) <= withinMs) return;
    this.#arm(withinMs, () => (this.#unanswered ? this.#giveLastChance() : this.#beat()));
  }

  stop(): void {
    this.#cancel();
  }

  #giveLastChance(): void {
    this.#arm(LAST_CHANCE_MS, () => (this.#unanswered ? this.#patient.drop() : this.#beat()));
  }

  #beat(): void {
    const hasStoodStill = elapsedMs(this.#clock, this.#armedAt) > 2 * this.#everyMs;
    this.probe(hasStoodStill ? Math.min(SOON_MS, this.#everyMs) : this.#everyMs);
  }

  #arm(ms: number, call: () => void): void {
    this.#cancel();
    this.#armedAt = momentOf(this.#clock);
    this.#armedMs = ms;
    this.#cancel = this.#clock.after(ms, call);
  }
}
