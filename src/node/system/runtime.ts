import { randomBytes } from "node:crypto";
import { KeyClock } from "../../core/key/clock.ts";
import type { Runtime } from "../runtime.ts";

/** Random bytes are cheaper by the page. */
const PAGE_BYTES = 4_096;

/** How long a batch may grow while more input arrives in every turn of the event loop. */
const MAX_GATHER_MS = 2;

export function systemRuntime(): Runtime {
  const clock = new KeyClock(Date.now);
  let page = Buffer.alloc(0);
  let used = 0;
  return {
    now: () => clock.now(),
    elapsed: () => performance.now(),
    // While commands run, more input arrives. Looking once more costs microseconds, a commit without it costs an fsync.
    // And libuv accepts one connection per turn (since 1.46): all clients that return after a restart would be let in one
    // per commit.
    whenQuiet: (callback, arrived) => {
      const startedAt = performance.now();
      let seen = -1;
      const look = () => {
        const count = arrived();
        if (count === seen || performance.now() - startedAt >= MAX_GATHER_MS) callback();
        else {
          seen = count;
          setImmediate(look);
        }
      };
      setImmediate(look);
    },
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
