import { ASKED_AT_ONCE, EMPTY } from "../limits.ts";
import type { Locks } from "../locks.ts";
import { argumentsOf, check, checkOptions, shownAs } from "../options.ts";
import type { KeyReport } from "../report.ts";
import { whileHeld } from "./lock.ts";

/** The options of `navigator.locks.request`. */
export interface WebLockOptions {
  /** `shared` is not supported. */
  readonly mode?: "exclusive" | "shared" | undefined;
  /** Does not wait: the callback is given null if the lock is taken. */
  readonly ifAvailable?: boolean | undefined;
  /** Takes the lock from its holder, ahead of all waiters. Needs the administrator's token. */
  readonly steal?: boolean | undefined;
  /** Ends the wait. */
  readonly signal?: AbortSignal | undefined;
}

/** The callback's argument. */
export interface WebLock {
  /** The name of the lock. */
  readonly name: string;
  /** Always exclusive. */
  readonly mode: "exclusive";
}

/** Runs while the lock is held. Gets null if the lock is not free, only with `ifAvailable`. */
export type WebLockCallback<Result> = (lock: WebLock | null) => Result | Promise<Result>;

/** A holder or a waiter. */
export interface WebLockInfo {
  /** The name of the lock. */
  readonly name: string;
  /** Always exclusive. */
  readonly mode: "exclusive";
  /** The session's number. */
  readonly clientId: string;
}

/** The shape of `navigator.locks`. */
export interface WebLocks {
  /**
   * As `Locks.request`: resolves as the callback does, once the lock is released; rejects with the callback's own error, or
   * with a `LockLostError` if the lock was lost before the callback ended. Rejects with a `NotSupportedError` for
   * unsupported options.
   */
  request<Result>(name: string, callback: WebLockCallback<Result>): Promise<Result>;
  request<Result>(
    name: string,
    options: WebLockOptions | undefined,
    callback: WebLockCallback<Result>,
  ): Promise<Result>;
  /** Resolves with all holders and waiters in the service, not only those of this client. Rejects like `Locks.stats`. */
  query(): Promise<{ held: WebLockInfo[]; pending: WebLockInfo[] }>;
}

/**
 * `navigator.locks` across machines instead of within one browser. Names may be any text: the few characters that a key
 * cannot contain, and `%`, are percent-encoded. Shared mode is not supported.
 */
export function webLocks(locks: Locks): WebLocks {
  async function request<Result>(
    name: string,
    first: WebLockOptions | WebLockCallback<Result> | undefined,
    second?: WebLockCallback<Result>,
  ): Promise<Result> {
    const [options, run] = argumentsOf<WebLockOptions, WebLockCallback<Result>>(first, second);
    check("request", "callback", run);
    checkOptions("request", options, "ifAvailable mode signal steal");
    const text = String(name);
    checkSupport(text, options);
    const { ifAvailable, steal, signal } = options;
    const key = keyOf(text);
    const shown = { name: text, mode: "exclusive" } as const;
    if (!ifAvailable) return locks.request(key, { steal, signal }, () => run(shown));
    const lock = await locks.tryAcquire(key);
    return lock ? whileHeld(lock, () => run(shown)) : run(null);
  }

  return {
    request,
    async query() {
      const { locks: all } = await locks.stats();
      const reports: (KeyReport | null)[] = [];
      for (let from = 0; from < all.length; from += ASKED_AT_ONCE) {
        const some = all.slice(from, from + ASKED_AT_ONCE);
        reports.push(...(await Promise.all(some.map(({ key }) => locks.query(key)))));
      }
      const infos = (part: "held_by" | "queue") =>
        reports.flatMap((report) => report?.[part].map((member) => infoOf(report.key, member)) ?? []);
      return { held: infos("held_by"), pending: infos("queue") };
    },
  };
}

function infoOf(key: string, { owner_conn_id }: { readonly owner_conn_id: number }): WebLockInfo {
  return { name: nameOf(key), mode: "exclusive", clientId: String(owner_conn_id) };
}

function checkSupport(name: string, { mode = "exclusive", ifAvailable, steal, signal }: WebLockOptions): void {
  const problem =
    (name.startsWith("-") && `name must not begin with a hyphen: ${shownAs(name)}`) ||
    (mode !== "exclusive" && `option "mode" must be "exclusive", not ${shownAs(mode)}`) ||
    ([ifAvailable, signal, steal].filter(Boolean).length > 1 &&
      'only one of "ifAvailable", "signal" and "steal" may be set');
  if (problem) throw new DOMException(`request: ${problem}`, "NotSupportedError");
}

function keyOf(name: string): string {
  return name.replace(/[% \t\r\n]/g, encodeURIComponent) || EMPTY;
}

function nameOf(key: string): string {
  return key === EMPTY ? "" : key.replace(/%(?:25|20|09|0D|0A)/g, decodeURIComponent);
}
