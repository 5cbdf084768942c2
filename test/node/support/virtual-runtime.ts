import type { Runtime } from "../../../src/node/runtime.ts";

interface Timer {
  readonly at: number;
  readonly callback: () => void;
}

/** Time that passes only when told to, and turns that end only when told to. */
export class VirtualRuntime implements Runtime {
  #now = 1_800_000_000_000;
  #turns: (() => void)[] = [];
  readonly #timers = new Set<Timer>();
  #random = 0;
  #looked = 0;
  /** How much time passes for those who look at `elapsed`: what a turn may take is used up sooner. */
  msPerLook = 0;
  longestTimerMs = 0;

  now(): number {
    return this.#now;
  }

  elapsed(): number {
    this.#looked += this.msPerLook;
    return this.#now + this.#looked;
  }

  whenQuiet(callback: () => void): void {
    this.#turns.push(callback);
  }

  after(ms: number, callback: () => void): () => void {
    this.longestTimerMs = Math.max(this.longestTimerMs, ms);
    const timer = { at: this.#now + ms, callback };
    this.#timers.add(timer);
    return () => this.#timers.delete(timer);
  }

  isOutOfChance = false;

  randomHex(bytes: number): string {
    if (this.isOutOfChance) throw new Error("out of chance");
    this.#random += 1;
    return this.#random
      .toString(16)
      .padStart(8, "0")
      .repeat(Math.ceil(bytes / 4))
      .slice(0, bytes * 2);
  }

  /** Turns that have yet to end: 0 if there is nothing to do. */
  get turns(): number {
    return this.#turns.length;
  }

  /** Ends the current turn. */
  endTurn(): void {
    for (const turn of this.#turns.splice(0)) turn();
  }

  /** Ends turns until nothing is left to do. */
  settle(): void {
    for (let turns = 0; this.#turns.length > 0; turns += 1) {
      if (turns > 10_000) throw new Error("turns without end");
      this.endTurn();
    }
  }

  /** Lets this much time pass, in order of the timers. Without `endsTurns` all of it happens in the current turn. */
  advance(ms: number, { endsTurns = true }: { readonly endsTurns?: boolean } = {}): void {
    const until = this.#now + ms;
    if (endsTurns) this.settle();
    for (let next = this.#next(until); next; next = this.#next(until)) {
      this.#timers.delete(next);
      this.#now = Math.max(this.#now, next.at);
      next.callback();
      if (endsTurns) this.settle();
    }
    this.#now = until;
  }

  /** Lets time pass until something is so, at most this much; also for promises. */
  async advanceUntil(ms: number, isSo: () => boolean): Promise<void> {
    for (let passed = 0; passed < ms && !isSo(); passed += 10) {
      this.advance(10);
      for (let tick = 0; tick < 10; tick++) await undefined;
    }
  }

  #next(until: number): Timer | undefined {
    let earliest: Timer | undefined;
    for (const timer of this.#timers) if (timer.at <= until && !(earliest && earliest.at <= timer.at)) earliest = timer;
    return earliest;
  }

  /** Time passes without anything being done, as while a commit takes long. */
  stall(ms: number): void {
    this.#now += ms;
  }

  /** The machine's clock is set back. */
  setBack(ms: number): void {
    this.#now -= ms;
  }

  /** Forgets everything that was planned: the process has died. */
  die(): void {
    this.#turns = [];
    this.#timers.clear();
  }
}
