import type { Lock } from "./lock.ts";
import type { Locks } from "./locks.ts";
import { check, checkOptions } from "./options.ts";
import type { KeyReport } from "./report.ts";

const ASKED_AT_ONCE = 64;

export interface WebLockOptions {
  readonly mode?: "exclusive" | "shared";
  readonly ifAvailable?: boolean;
  readonly steal?: boolean;
  readonly signal?: AbortSignal;
}

export interface WebLock {
  readonly name: string;
  readonly mode: "exclusive";
}

export type WebLockCallback<Result> = (lock: WebLock | null) => Result | Promise<Result>;

export interface WebLockInfo {
  readonly name: string;
  readonly mode: "exclusive";
  readonly clientId: string;
}

/** The shape of `navigator.locks`. */
export interface WebLocks {
  request<Result>(name: string, callback: WebLockCallback<Result>): Promise<Result>;
  request<Result>(
    name: string,
    options: WebLockOptions | undefined,
    callback: WebLockCallback<Result>,
  ): Promise<Result>;
  /** Everything that is held and waited for in the service, not only by this client. */
  query(): Promise<{ held: WebLockInfo[]; pending: WebLockInfo[] }>;
}

/**
 * `navigator.locks` for the whole world instead of one browser. Names may be any text: the few characters that a key of
 * the service cannot have, and `%`, are percent-encoded. Shared mode is not supported. When a lock is lost, for whatever reason, the promise
 * of `request` rejects with an `AbortError` whose cause says why, as it does for a lock that is stolen in a browser.
 */
export function webLocks(locks: Locks): WebLocks {
  async function request<Result>(
    name: string,
    first: WebLockOptions | WebLockCallback<Result> | undefined,
    second?: WebLockCallback<Result>,
  ): Promise<Result> {
    const [options, callback] = typeof first === "function" ? [{}, first] : [first ?? {}, second];
    check("request", "callback", callback);
    checkOptions("request", options, "ifAvailable mode signal steal");
    const run = callback as WebLockCallback<Result>;
    const text = String(name);
    checkSupport(text, options);
    const { ifAvailable = false, steal = false, signal } = options;
    const [key, wish] = [keyOf(text), { steal, ...(signal && { signal }) }];
    const lock = await (ifAvailable ? locks.tryAcquire(key) : locks.acquire(key, wish));
    return lock ? whileHeld(lock, () => run({ name: text, mode: "exclusive" })) : run(null);
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
        reports.flatMap((report) => (report?.[part] ?? []).map((member) => infoOf(report?.key ?? "", member)));
      return { held: infos("held_by"), pending: infos("queue") };
    },
  };
}

async function whileHeld<Result>(lock: Lock, run: () => Result | Promise<Result>): Promise<Result> {
  const lost = lock.lost.then((cause) => {
    throw Object.assign(new DOMException(cause.message, "AbortError"), { cause });
  });
  try {
    return await Promise.race([(async () => run())(), lost]);
  } finally {
    await lock.release();
  }
}

function infoOf(key: string, { owner_conn_id }: { readonly owner_conn_id: number }): WebLockInfo {
  return { name: nameOf(key), mode: "exclusive", clientId: String(owner_conn_id) };
}

function checkSupport(name: string, { mode = "exclusive", ifAvailable, steal, signal }: WebLockOptions): void {
  const problem =
    (name.startsWith("-") && "a hyphen in front") ||
    (mode !== "exclusive" && `mode ${mode}`) ||
    (steal && ifAvailable && "steal with ifAvailable") ||
    (signal && (steal || ifAvailable) && "signal with steal or ifAvailable");
  if (problem) throw new DOMException(`request: ${problem} is not supported`, "NotSupportedError");
}

/** The service has no key without text. */
const EMPTY = "%";

function keyOf(name: string): string {
  return name === "" ? EMPTY : name.replace(/[% \t\r\n]/g, encodeURIComponent);
}

function nameOf(key: string): string {
  return key === EMPTY ? "" : key.replace(/%(?:25|20|09|0D|0A)/g, decodeURIComponent);
}
