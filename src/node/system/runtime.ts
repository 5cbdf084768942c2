import { randomBytes } from "node:crypto";
import { KeyClock } from "../../core/key/clock.ts";
import type { Runtime } from "../runtime.ts";

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
