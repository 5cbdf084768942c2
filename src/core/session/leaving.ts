import type { SessionContext } from "./context.ts";
import type { Holdings } from "./holdings.ts";

/** Keys left concurrently: each has to be woken and writes, and other clients need to be served meanwhile. */
const MAX_AT_ONCE = 8;
/** After this many keys the session forgets them, so that a crash does not restart the departure from the beginning. */
const FORGET_AT_ONCE = 64;
const FIRST_RETRY_MS = 1_000;
/** An unreachable key is retried less and less often. */
const LATER_EACH_TIME_MS = 250;
const LONGEST_RETRY_MS = 30_000;

/**
 * The end of a session: it leaves every key it has used, then its stored state is deleted. An unreachable key does not
 * stop the others and is retried from the alarm, which also continues after a crash.
 */
export class Leaving {
  readonly #context: SessionContext;
  readonly #holdings: Holdings;
  #isUnderWay = false;
  #retryMs = FIRST_RETRY_MS;

  constructor(context: SessionContext, holdings: Holdings) {
    this.#context = context;
    this.#holdings = holdings;
  }

  get isUnderWay(): boolean {
    return this.#isUnderWay;
  }

  /** Leaves all keys. While that is under way, another call only makes sure that the alarm fires again. */
  begin(): void {
    if (this.#isUnderWay) {
      this.#context.emit({ type: "wake", by: this.#context.now + this.#retryMs });
      return;
    }
    const keys = [...this.#holdings.keysToLeave()];
    if (keys.length === 0) {
      this.#end(0);
      return;
    }
    this.#isUnderWay = true;
    const { now } = this.#context;
    this.#context.emit({ type: "put", name: "ending", value: true });
    this.#context.emit({ type: "wake", at: now + this.#retryMs });
    this.#retryMs = Math.min(this.#retryMs + LATER_EACH_TIME_MS, LONGEST_RETRY_MS);
    this.#leave(keys);
  }

  #leave(keys: string[]): void {
    const { session, config } = this.#context;
    let underWay = 0;
    let missed = 0;
    let left: string[] = [];
    const goOn = () => {
      while (underWay < MAX_AT_ONCE) {
        const key = keys.shift();
        if (key === undefined) break;
        underWay += 1;
        const done = (isLeft: boolean) => {
          underWay -= 1;
          if (isLeft) left.push(key);
          else missed += 1;
          const isLast = underWay === 0 && keys.length === 0;
          if (isLast ? missed > 0 : left.length >= FORGET_AT_ONCE) {
            this.#holdings.forget(left);
            left = [];
          }
          if (isLast) this.#end(missed);
          else goOn();
        };
        const failed = (error: string) => {
          this.#context.emit({ type: "log", level: "warn", event: "key_unreachable", fields: { key, error } });
          done(false);
        };
        const ask = { type: "leave", session, keepsReported: !config.autoRelease } as const;
        this.#context.callKey(key, ask, { answered: () => done(true), failed });
      }
    };
    goOn();
  }

  #end(missed: number): void {
    this.#isUnderWay = false;
    if (missed === 0) this.#holdings.close();
    // The alarm may have fired meanwhile, and is then no longer set.
    else this.#context.emit({ type: "wake", by: this.#context.now + this.#retryMs });
    this.#context.emit({ type: "left", isAll: missed === 0 });
  }
}
