import { momentOf } from "../clock.ts";
import type { Turn } from "../connection/calls.ts";
import { isHidden } from "../connection/page-events.ts";
import { AcquireTimeoutError } from "../errors.ts";
import { MAX_BUSY_MS, MAX_IDLE_MS } from "../limits.ts";
import { acquire, leftMs, type RequestOptions } from "./acquire.ts";
import type { Host, LockTarget } from "./host.ts";
import { Lock, whileHeld } from "./lock.ts";

/** Locks that are kept after their callback. */
export interface Stays {
  request<Result>(key: string, options: RequestOptions, run: (lock: Lock) => Result | Promise<Result>): Promise<Result>;
  /** Gives back what is kept of this key while no callback uses it. */
  giveUp(place: LockTarget): void;
}

/**
 * Callers of this client take turns on a lock, first come, first served, and the next one takes it over without asking the
 * service. Once somebody else wants it, it is given back after the running callback, and the next caller asks the service like
 * everybody else. Callers of a semaphore do not wait here: whoever finds no slot kept asks the service, and one slot at
 * most is kept.
 */
export function staysOf(host: Host): Stays {
  /** Those that no callback uses. */
  const idle = new Map<string, Lock>();
  /** Who waits for a lock that a callback of this client has, or is about to get. */
  const turns = new Map<string, Turn[]>();

  /** Since when this client has been busy without a pause in which timers fire and messages are read. */
  let busySince = 0;
  let pause: Promise<void> | undefined;

  return {
    async request(key, options, run) {
      const { clock } = host;
      let { limit = 1, maxHold, maxIdle = MAX_IDLE_MS, timeout } = options;
      const name = `${limit} ${key}`;
      const queue = turns.get(name);
      if (queue) {
        const since = momentOf(clock);
        const tooLate = () => new AcquireTimeoutError(key, undefined, options.timeout);
        await host.ask({ command: "ping", queue }, { signal: options.signal, withinMs: timeout, tooLate });
        timeout = leftMs(host, timeout, since);
      } else if (limit === 1) turns.set(name, []);
      // The next who is still there has the turn.
      const ended = () => {
        const waiting = turns.get(name);
        while (waiting?.length) if (waiting.shift()?.()) return;
        turns.delete(name);
      };
      // Callbacks that wait for nothing would keep everything else of this program from running, and the news that somebody waits.
      if (!pause) {
        busySince = clock.steady();
        pause = new Promise<void>((resolve) => clock.after(0, resolve)).then(() => {
          pause = undefined;
        });
      }
      if (clock.steady() - busySince > MAX_BUSY_MS) await pause;
      const kept = idle.get(name);
      const isKept = kept?.isHeld;
      // In doubt, nothing is lost by asking for another.
      if (!isKept) kept?.want();
      let lock: Lock;
      try {
        lock = isKept
          ? new Lock(host, kept.pass(), { maxHold, ended })
          : await acquire(host, key, { ...options, timeout }, ended);
      } catch (error) {
        ended();
        throw error;
      }
      const keeps = () => {
        if (!lock.isHeld || lock.isWanted || isHidden() || idle.has(name)) return false;
        const over = () => idle.delete(name);
        idle.set(name, new Lock(host, lock.pass(), { maxHold: maxIdle, isIdle: true, ended: over }));
        return true;
      };
      return whileHeld(lock, run, keeps);
    },
    giveUp: ({ key, limit }) => idle.get(`${limit} ${key}`)?.want(),
  };
}
