import { momentOf } from "../clock.ts";
import type { QueuedCaller } from "../connection/calls.ts";
import { isHidden } from "../connection/page-events.ts";
import { AcquireTimeoutError } from "../errors.ts";
import { MAX_BUSY_MS, MAX_IDLE_MS } from "../limits.ts";
import { acquire, leftMs, type RequestOptions } from "./acquire.ts";
import type { ClientContext, LockTarget } from "./client-context.ts";
import { Lock, whileHeld } from "./lock.ts";

/** Locks that are kept after their callback. */
export interface StickyLocks {
  request<Result>(key: string, options: RequestOptions, run: (lock: Lock) => Result | Promise<Result>): Promise<Result>;
  /** Releases the lock of this key if no callback uses it. */
  release(place: LockTarget): void;
}

/**
 * Callers of this client take turns on a lock in order of arrival, and the next one takes it over without asking the
 * service. Once another client wants it, it is released after the running callback, and the next caller asks the service.
 * Callers of a semaphore do not wait here: without an idle slot they ask the service, and at most one slot is kept.
 */
export function stickyLocksOf(client: ClientContext): StickyLocks {
  /** Locks that no callback uses. */
  const idle = new Map<string, Lock>();
  /** Callers that wait for a lock that another callback of this client has or is acquiring. */
  const queues = new Map<string, QueuedCaller[]>();

  /** When the last pause ended in which timers fire and messages are read. */
  let busySince = 0;
  let pause: Promise<void> | undefined;

  return {
    async request(key, options, run) {
      const { clock } = client;
      let { limit = 1, maxHold, maxIdle = MAX_IDLE_MS, timeout } = options;
      const name = `${limit} ${key}`;
      const queue = queues.get(name);
      if (queue) {
        const since = momentOf(clock);
        const tooLate = () => new AcquireTimeoutError(key, undefined, options.timeout);
        await client.ask({ command: "ping", queue }, { signal: options.signal, withinMs: timeout, tooLate });
        timeout = leftMs(client, timeout, since);
      } else if (limit === 1) queues.set(name, []);
      // Gives the turn to the next caller that still waits.
      const ended = () => {
        const waiting = queues.get(name);
        while (waiting?.length) if (waiting.shift()?.()) return;
        queues.delete(name);
      };
      // Callbacks that never wait would block the event loop, and with it the notice that another client waits.
      if (!pause) {
        busySince = clock.steady();
        pause = new Promise<void>((resolve) => clock.after(0, resolve)).then(() => {
          pause = undefined;
        });
      }
      if (clock.steady() - busySince > MAX_BUSY_MS) await pause;
      const kept = idle.get(name);
      const isKept = kept?.isHeld;
      // In doubt, ask for a new grant.
      if (!isKept) kept?.want();
      let lock: Lock;
      try {
        lock = isKept
          ? new Lock(client, kept.handOver(), { maxHold, ended })
          : await acquire(client, key, { ...options, timeout }, ended);
      } catch (error) {
        ended();
        throw error;
      }
      const keeps = () => {
        if (!lock.isHeld || lock.isWanted || isHidden() || idle.has(name)) return false;
        const over = () => idle.delete(name);
        idle.set(name, new Lock(client, lock.handOver(), { maxHold: maxIdle, isIdle: true, ended: over }));
        return true;
      };
      return whileHeld(lock, run, keeps);
    },
    release: ({ key, limit }) => idle.get(`${limit} ${key}`)?.want(),
  };
}
