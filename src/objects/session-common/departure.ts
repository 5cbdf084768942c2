import { log } from "../../log.ts";
import { inBatches } from "../pacing/batches.ts";
import type { SessionParts } from "./session-parts.ts";

/** Keys left concurrently: each has to be woken and writes, and other clients need to be served meanwhile. */
const MAX_AT_ONCE = 8;
/** After this many keys the session forgets them, so that a crash does not restart the departure from the beginning. */
const FORGOTTEN_AT_ONCE = 64;
const FIRST_RETRY_MS = 1_000;
/** An unreachable key is retried less and less often. */
const LATER_EACH_TIME_MS = 250;
const LONGEST_RETRY_MS = 30_000;

/**
 * The end of a session: it leaves every key it has used, then deletes its stored state. An unreachable key does not
 * stop the others and is retried from the alarm, which also continues a departure after a crash.
 */
export class Departure {
  readonly #own: Omit<SessionParts, "departure" | "activity">;
  #underWay: Promise<void> | undefined;
  #retryMs = FIRST_RETRY_MS;

  constructor(own: Omit<SessionParts, "departure" | "activity">) {
    this.#own = own;
  }

  /** Resolves when all keys have been left, or none of the rest can be reached now. Concurrent calls share one run. */
  run(): Promise<void> {
    this.#underWay ??= this.#leaveAll().finally(() => {
      this.#underWay = undefined;
    });
    return this.#underWay;
  }

  async #leaveAll(): Promise<void> {
    const { holdings, store, wakeUp } = this.#own;
    const keys = store.keys().filter((key) => !holdings.isSpent(key));
    if (keys.length > 0) {
      store.noteEnding();
      wakeUp.set(Date.now() + this.#retryMs);
      this.#retryMs = Math.min(this.#retryMs + LATER_EACH_TIME_MS, LONGEST_RETRY_MS);
    }
    let missed = 0;
    for (let start = 0; start < keys.length; start += FORGOTTEN_AT_ONCE) {
      const part = keys.slice(start, start + FORGOTTEN_AT_ONCE);
      const left = await inBatches(part, MAX_AT_ONCE, (key) => this.#leave(key));
      missed += left.filter((isLeft) => !isLeft).length;
      const isLast = start + FORGOTTEN_AT_ONCE >= keys.length;
      if (!isLast || missed > 0) store.forget(part.filter((_, index) => left[index]));
    }
    if (missed === 0) {
      await store.deleteAll();
      wakeUp.clear();
    }
    // The alarm may have fired during this departure, and is then no longer set.
    else wakeUp.by(Date.now() + this.#retryMs);
  }

  async #leave(key: string): Promise<boolean> {
    const { session, config, keys } = this.#own;
    try {
      await keys.leave(key, session, { keepsReported: !config.autoRelease });
      return true;
    } catch (error) {
      log("warn", "key_unreachable", { key, error: String(error) });
      return false;
    }
  }
}
