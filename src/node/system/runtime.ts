import { randomBytes } from "node:crypto";
import { KeyClock } from "../../core/key/clock.ts";
import type { Runtime } from "../runtime.ts";

/** Random bytes are cheaper by the page. */
const PAGE_BYTES = 4_096;

/** How long a batch waits for connections that keep arriving. */
const ARRIVALS_MS = 10;

export interface SystemRuntime extends Runtime {
  /** A connection was accepted in this turn of the event loop. */
  accepted(): void;
}

export function systemRuntime(): SystemRuntime {
  const clock = new KeyClock(Date.now);
  let hasAccepted = false;
  let page = Buffer.alloc(0);
  let used = 0;
  return {
    now: () => clock.now(),
    elapsed: () => performance.now(),
    // libuv accepts one connection per turn (since 1.46). If each turn ended with a commit, a crowd of newcomers, such as
    // all clients after a restart, would be let in one per commit.
    atEndOfTurn: (callback) => {
      const startedAt = performance.now();
      const end = () => {
        const isCrowded = hasAccepted && performance.now() - startedAt < ARRIVALS_MS;
        hasAccepted = false;
        if (isCrowded) setImmediate(end);
        else callback();
      };
      setImmediate(end);
    },
    accepted: () => {
      hasAccepted = true;
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
