import { momentOf } from "../clock.ts";
import { AcquireTimeoutError } from "../errors.ts";
import { check, checkCall, checkOptions, shownAs } from "../options.ts";
import { compareKeys } from "../wire.ts";
import { type AcquireOptions, acquire, leftMs, type RequestOptions } from "./acquire.ts";
import type { ClientContext } from "./client-context.ts";
import { type Lock, whileHeld } from "./lock.ts";

/** One of several keys, and how to acquire it: its own options win over those of the request. */
export interface KeyOptions extends Omit<AcquireOptions, "signal" | "steal" | "timeout"> {
  /** The key. */
  readonly key: string;
}

/** The keys of a request, in any order. A `Semaphore` is one that knows its limit. */
export type Keys = readonly (string | KeyOptions)[];

/** A lock for each key, in the order of the keys. */
export type LocksOf<Several extends Keys> = { [Index in keyof Several]: Lock };

/** How to acquire several keys. Their locks are never sticky, whatever `sticky` says. */
export type SeveralOptions = Omit<RequestOptions, "steal">;

/** From plain JavaScript, it may be anything. */
export function isSeveral(key: string | Keys): key is Keys {
  return Array.isArray(key);
}

/** Runs the callback while all keys are held. They are taken one after another, in one order for all clients. */
export async function requestSeveral<Result>(
  client: ClientContext,
  keys: Keys,
  options: RequestOptions,
  run: (locks: Lock[], signal: AbortSignal) => Result | Promise<Result>,
): Promise<Result> {
  const wanted = wantedOf(keys, options);
  const names = [...wanted.keys()];
  const { signal, timeout } = options;
  const since = momentOf(client.clock);
  const losing = new AbortController();
  const ending = signal ? AbortSignal.any([signal, losing.signal]) : losing.signal;
  /** In the order given. Until all are held, some are missing. */
  const locks: Lock[] = [];
  const release = () => Promise.all(locks.map((lock) => lock.release()));
  const finish = async () => (await Promise.all(locks.map((lock) => lock.finish()))).find(Boolean);
  for (const key of [...names].sort(compareKeys))
    try {
      const left = leftMs(client, timeout, since);
      const lock = await acquire(client, key, { ...wanted.get(key), signal: ending, timeout: left });
      locks[names.indexOf(key)] = lock;
      void lock.lost.then((loss) => losing.abort(loss));
      locks.forEach((each) => {
        // Its lease may have ended while the machine slept, before a timer could tell.
        each.check();
        each.signal.throwIfAborted();
      });
    } catch (error) {
      const released = release();
      // Without a connection, the service hears of it later: the caller is told in time.
      if (client.isReady) await released;
      // The message tells the timeout of the request, not what was left of it for this key.
      throw error instanceof AcquireTimeoutError ? new AcquireTimeoutError(key, error.cause, timeout) : error;
    }
  return whileHeld({ release, finish }, () => run([...locks], losing.signal));
}

/** The options for each key, in the order given. Throws if there are too few or too many, or one is invalid or given twice. */
function wantedOf(keys: Keys, options: RequestOptions): Map<string, AcquireOptions> {
  const wanted = new Map<string, AcquireOptions>();
  check("request", "keys", keys.length);
  for (const each of keys) {
    const { key, ...own } = Object(each) === each ? (each as KeyOptions) : { key: each as string };
    checkCall("request", key, options);
    checkOptions("request of a key", own, "lease limit maxHold");
    if (options.steal) throw new TypeError('request: option "steal" is for one key: what it took cannot be given back');
    if (wanted.has(key)) throw new TypeError(`request: key ${shownAs(key)} is given twice`);
    const all: Record<string, unknown> = own;
    for (const name in options) all[name] ??= options[name as keyof RequestOptions];
    wanted.set(key, own);
  }
  return wanted;
}
