import { randomBytes } from "node:crypto";
import { KeyClock } from "../core/key/clock.ts";

/** Time and chance. Tests bring their own. */
export interface Runtime {
  /** The service's clock in ms since the epoch: never goes back. */
  now(): number;
  /** Milliseconds by a clock that nobody sets. */
  elapsed(): number;
  /** Calls back when the current turn of the event loop has taken in what there was to take in. */
  atEndOfTurn(callback: () => void): void;
  /** Calls back after this time, unless the returned function is called before. */
  after(ms: number, callback: () => void): () => void;
  /** As many unpredictable bytes, as hex digits. */
  randomHex(bytes: number): string;
}

/** Random bytes are cheaper by the page. */
const PAGE_BYTES = 4_096;

export function systemRuntime(): Runtime {
  const clock = new KeyClock(Date.now);
  let page = Buffer.alloc(0);
  let used = 0;
  return {
    now: () => clock.now(),
    elapsed: () => performance.now(),
    atEndOfTurn: (callback) => void setImmediate(callback),
    after: (ms, callback) => {
      const timer = setTimeout(callback, ms);
      return () => clearTimeout(timer);
    },
    randomHex: (bytes) => {
      if (used + bytes > page.length) {
        page = randomBytes(Math.max(PAGE_BYTES, bytes));
        used = 0;
      }
      used += bytes;
      return page.toString("hex", used - bytes, used);
    },
  };
}
