import type { AsyncLocalStorage } from "node:async_hooks";
import type { Running } from "./counting.ts";

interface Timer {
  readonly due: number;
  readonly running: Running;
  readonly span: Held;
  handle: ReturnType<typeof setTimeout> | undefined;
}

interface Held {
  readonly from: number;
  readonly due: number;
  /** Undefined while the timer runs. */
  to: number | undefined;
}

const LOOK_EVERY_MS = 2;
/**
 * Timers of the service, which follow `Date`, wherever that is set. A timer asks the machine's clock again and again whether
 * it is due, in the context of the request that set it: no other may end its waiting.
 */
export class Timers {
  readonly #context: AsyncLocalStorage<Running>;
  readonly #changed: () => void;
  readonly #shortMs: number;
  readonly #pending = new Set<Timer>();
  readonly #held = new Map<string, Held[]>();
  readonly #setTimeout = globalThis.setTimeout;
  readonly #clearTimeout = globalThis.clearTimeout;
  readonly #wait = scheduler.wait.bind(scheduler);

  /** Pauses of up to `shortMs` take their time on the machine's clock: requests wait for them, and nobody moves `Date` meanwhile. */
  constructor(context: AsyncLocalStorage<Running>, changed: () => void, shortMs: number) {
    this.#context = context;
    this.#changed = changed;
    this.#shortMs = shortMs;
  }

  /** When the next one is due; Infinity if there is none. */
  get nextAt(): number {
    return Math.min(Number.POSITIVE_INFINITY, ...Array.from(this.#pending, ({ due }) => due));
  }

  /** Whether one has come due and has not ended yet. */
  get isDue(): boolean {
    return this.nextAt <= Date.now();
  }

  /** Time in which timers kept objects awake. What an object has running at the same time counts once. */
  get heldMs(): number {
    let sum = 0;
    for (const spans of this.#held.values()) {
      let end = Number.NEGATIVE_INFINITY;
      for (const { from, due, to = Math.min(due, Date.now()) } of spans) {
        sum += Math.max(0, to - Math.max(from, end));
        end = Math.max(end, to);
      }
    }
    return sum;
  }

  /** Forgets timers that are due and do not end: their objects are gone. */
  dropDead(): void {
    for (const timer of this.#pending) if (timer.due <= Date.now()) this.#end(timer);
  }

  realWait(ms: number): Promise<void> {
    return this.#wait(ms);
  }

  install(): () => void {
    const wait = (ms: number, options?: { readonly signal?: AbortSignal }): Promise<void> => {
      const running = this.#context.getStore();
      return running ? this.#sleep(running, ms) : this.#wait(ms, options);
    };
    const set = (work: (...args: unknown[]) => void, ms = 0, ...args: unknown[]): unknown => {
      const running = this.#context.getStore();
      if (!running) return this.#setTimeout(work, ms, ...args);
      return this.#start(running, ms, () => work(...args));
    };
    const clear = (handle: unknown): void => {
      if (this.#pending.has(handle as Timer)) this.#end(handle as Timer);
      else if (typeof handle !== "object") this.#clearTimeout(handle as number);
    };
    Object.assign(globalThis, { setTimeout: set, clearTimeout: clear });
    Object.defineProperty(scheduler, "wait", { value: wait, configurable: true });
    return () => {
      Object.assign(globalThis, { setTimeout: this.#setTimeout, clearTimeout: this.#clearTimeout });
      Object.defineProperty(scheduler, "wait", { value: this.#wait, configurable: true });
    };
  }

  #start(running: Running, ms: number, work: () => void): Timer {
    const from = Date.now();
    const due = from + Math.max(0, ms);
    const span: Held = { from, due, to: undefined };
    if (running.object !== undefined) {
      const spans = this.#held.get(running.object) ?? [];
      this.#held.set(running.object, [...spans, span]);
    }
    const timer: Timer = { due, running, span, handle: undefined };
    running.timers += 1;
    this.#pending.add(timer);
    this.#changed();
    const look = () => {
      if (!this.#pending.has(timer)) return;
      if (ms > this.#shortMs && Date.now() < timer.due) timer.handle = this.#setTimeout(look, LOOK_EVERY_MS);
      else {
        this.#end(timer);
        work();
      }
    };
    timer.handle = this.#setTimeout(look, ms > this.#shortMs ? 0 : ms);
    return timer;
  }

  async #sleep(running: Running, ms: number): Promise<void> {
    const timer = this.#start(running, ms, () => {});
    if (ms <= this.#shortMs) {
      await this.#wait(ms);
      this.#end(timer);
    }
    while (this.#pending.has(timer)) await this.#wait(LOOK_EVERY_MS);
  }

  #end(timer: Timer): void {
    if (!this.#pending.delete(timer)) return;
    this.#clearTimeout(timer.handle ?? null);
    timer.span.to = timer.due - timer.span.from <= this.#shortMs ? timer.due : Math.min(timer.due, Date.now());
    timer.running.timers -= 1;
    this.#changed();
  }
}
