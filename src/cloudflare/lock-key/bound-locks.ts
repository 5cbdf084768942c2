import type { KeyDetail } from "../../reports/stats.ts";
import { isSeveral } from "../locks/arguments.ts";
import type { Keys, LockOptions, LocksBinding, LocksOf, Lost, RenewOptions, RequestedLock } from "../locks/binding.ts";
import { locksError } from "../locks/errors.ts";
import type { OneCallback, OwnLock, OwnLocks, SeveralCallback, WorkLock } from "./api.ts";
import { ownLock } from "./own-lock.ts";
import { faultOfService } from "./setup.ts";

/** Locks behind a service binding. The service renews and releases; the callback's result stays in this Worker. */
export class BoundLocks implements OwnLocks {
  readonly #binding: LocksBinding;

  constructor(binding: LocksBinding) {
    this.#binding = binding;
  }

  request<Result>(key: string, options: LockOptions | undefined, callback: OneCallback<Result>): Promise<Result>;
  request<Result, const Several extends Keys>(
    keys: Several,
    options: LockOptions | undefined,
    callback: (locks: LocksOf<Several, WorkLock>, signal: AbortSignal) => Result | Promise<Result>,
  ): Promise<Result>;
  async request<Result>(
    key: string | Keys,
    options: LockOptions | undefined,
    callback: OneCallback<Result> | SeveralCallback<Result>,
  ): Promise<Result> {
    let end: { readonly result: Result } | { readonly error: unknown } | undefined;
    const during = async (work: () => Promise<Result>) => {
      try {
        end = { result: await work() };
      } catch (error) {
        end = { error };
        throw error;
      }
    };
    const one = (remote: RequestedLock) =>
      during(async () => (callback as OneCallback<Result>)(await workLock(remote)));
    const several = (remotes: readonly RequestedLock[], lost: Lost) =>
      during(async () => {
        const locks = await Promise.all(remotes.map(workLock));
        return (callback as SeveralCallback<Result>)(locks, signalOf(lost));
      });
    // What is not a function is refused by the service.
    const work = typeof callback === "function" ? { one, several } : { one: callback, several: callback };
    try {
      await asked(() =>
        isSeveral(key)
          ? this.#binding.request(key, options, work.several)
          : this.#binding.request(key, options, work.one),
      );
    } catch (error) {
      // As it was thrown, not as it came back.
      throw end && "error" in end ? end.error : error;
    }
    if (end && "result" in end) return end.result;
    throw new Error("the service has not run the callback");
  }

  async acquire(key: string, options?: LockOptions): Promise<OwnLock | null> {
    const lock = await asked(() => this.#binding.acquire(key, options));
    return lock && ownLock(lock, this);
  }

  renew(key: string, token: string, options?: RenewOptions): Promise<{ readonly remaining: number } | null> {
    return asked(() => this.#binding.renew(key, token, options));
  }

  release(key: string, token: string): Promise<boolean> {
    return asked(() => this.#binding.release(key, token));
  }

  describe(key: string): Promise<KeyDetail | null> {
    return asked(() => this.#binding.describe(key));
  }
}

async function workLock(remote: RequestedLock): Promise<WorkLock> {
  const [key, token, fence] = await Promise.all([remote.key, remote.token, remote.fence]);
  return {
    key,
    token,
    fence,
    get expiresAt() {
      return remote.expiresAt;
    },
    isHeld: () => remote.isHeld(),
  };
}

/** Aborts when the service reports a loss. */
function signalOf(lost: Lost): AbortSignal {
  const losing = new AbortController();
  const report = (message: string | null) => {
    if (message !== null) losing.abort(locksError("LockLostError", message.replace(/^LockLostError: /, "")));
  };
  // If the service cannot be reached any more, `request` rejects.
  lost().then(report, () => {});
  return losing.signal;
}

/** Throws what is wrong with the setup, if the call fails because of that. */
async function asked<Answer>(ask: () => Promise<Answer>): Promise<Answer> {
  try {
    return await ask();
  } catch (error) {
    throw faultOfService(error) ?? error;
  }
}
