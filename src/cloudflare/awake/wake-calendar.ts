/**
 * When objects of this isolate have asked to be woken. An alarm opens an object's files before the object can make
 * room, so where the number of awake objects is limited, alarms for the same moment are spread over the following
 * steps. Leases still expire on time, because expiry is a comparison; only notifications are sent a little later.
 */
const STEP_MS = 100;
/** A full set is woken in this many steps: each object has work to do before the next may rest. */
const STEPS_PER_SET = 16;

export class WakeCalendar {
  /** Number of alarms in each step. */
  readonly #steps = new Map<number, number>();
  #forgottenUntil = 0;

  /** The first moment from `time` on at which one more object may be woken; `max` may be awake. */
  book(time: number, now: number, max: number): number {
    this.#forgetUntil(Math.floor(now / STEP_MS));
    const perStep = Math.max(1, Math.floor(max / STEPS_PER_SET));
    let step = Math.floor(Math.max(time, now) / STEP_MS);
    while ((this.#steps.get(step) ?? 0) >= perStep) step += 1;
    this.#steps.set(step, (this.#steps.get(step) ?? 0) + 1);
    return Math.max(time, step * STEP_MS);
  }

  #forgetUntil(now: number): void {
    if (this.#forgottenUntil === now) return;
    this.#forgottenUntil = now;
    for (const step of this.#steps.keys()) if (step < now) this.#steps.delete(step);
  }
}
