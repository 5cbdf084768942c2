/** Time and chance of one simulated world: the same seed tells the same story. */

interface Planned {
  readonly at: number;
  readonly order: number;
  readonly call: () => void;
}

export class Schedule {
  /** True time in milliseconds; clocks of objects may be off. */
  now = 1_700_000_000_000;
  readonly #planned: Planned[] = [];
  #order = 0;
  #state: number;

  constructor(seed: number) {
    this.#state = seed >>> 0;
  }

  /** A number from 0 up to, but not including, 1. */
  chance(): number {
    this.#state = (this.#state + 0x6d2b79f5) >>> 0;
    let mixed = this.#state;
    mixed = Math.imul(mixed ^ (mixed >>> 15), mixed | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  }

  happens(probability: number): boolean {
    return this.chance() < probability;
  }

  between(least: number, most: number): number {
    return least + Math.floor(this.chance() * (most - least + 1));
  }

  hex(digits: number): string {
    return Array.from({ length: digits }, () => this.between(0, 15).toString(16)).join("");
  }

  pick<Thing>(things: readonly Thing[]): Thing | undefined {
    return things[Math.floor(this.chance() * things.length)];
  }

  after(ms: number, call: () => void): void {
    this.at(this.now + ms, call);
  }

  at(time: number, call: () => void): void {
    this.#order += 1;
    const planned = { at: Math.max(time, this.now), order: this.#order, call };
    this.#planned.push(planned);
    let child = this.#planned.length - 1;
    while (child > 0) {
      const parent = (child - 1) >> 1;
      if (!this.#isBefore(child, parent)) break;
      this.#swap(child, parent);
      child = parent;
    }
  }

  /** Lets everything happen that is planned up to this time. */
  runUntil(time: number): void {
    while (this.step(time));
  }

  /** Lets the next thing happen that is planned up to this time. False if there is none: then it is that time. */
  step(time: number): boolean {
    const first = this.#planned[0];
    if (first && first.at <= time) {
      this.#removeFirst();
      this.now = Math.max(this.now, first.at);
      first.call();
      return true;
    }
    this.now = Math.max(this.now, time);
    return false;
  }

  /** Time passes in which nothing else happens. */
  stall(ms: number): void {
    this.now += ms;
  }

  #removeFirst(): void {
    const last = this.#planned.pop();
    if (!last || this.#planned.length === 0) return;
    this.#planned[0] = last;
    for (let parent = 0; ; ) {
      const left = 2 * parent + 1;
      const right = left + 1;
      let least = parent;
      if (left < this.#planned.length && this.#isBefore(left, least)) least = left;
      if (right < this.#planned.length && this.#isBefore(right, least)) least = right;
      if (least === parent) return;
      this.#swap(least, parent);
      parent = least;
    }
  }

  #isBefore(one: number, other: number): boolean {
    const [a, b] = [this.#planned[one] as Planned, this.#planned[other] as Planned];
    return a.at < b.at || (a.at === b.at && a.order < b.order);
  }

  #swap(one: number, other: number): void {
    const kept = this.#planned[one] as Planned;
    this.#planned[one] = this.#planned[other] as Planned;
    this.#planned[other] = kept;
  }
}

/** One way along which messages arrive in the order in which they were sent. */
export class Lane {
  readonly #schedule: Schedule;
  readonly #underWay: (() => void)[] = [];
  #lastAt = 0;
  #isCut = false;

  constructor(schedule: Schedule) {
    this.#schedule = schedule;
  }

  send(ms: number, arrive: () => void): void {
    if (this.#isCut) return;
    this.#lastAt = Math.max(this.#lastAt, this.#schedule.now + ms);
    this.#underWay.push(arrive);
    this.#schedule.at(this.#lastAt, () => this.#underWay.shift()?.());
  }

  /** Nothing that is under way arrives. */
  cut(): void {
    this.#isCut = true;
    this.#underWay.length = 0;
  }

  /** Everything that is under way arrives now, and nothing after it. */
  end(): void {
    const rest = [...this.#underWay];
    this.cut();
    for (const arrive of rest) arrive();
  }
}
