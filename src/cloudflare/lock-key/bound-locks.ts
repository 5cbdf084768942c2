import type { KeyDetail } from "../../reports/stats.ts";
import type { LockOptions, LocksBinding, RenewOptions } from "../locks/binding.ts";
import type { OwnLock, OwnLocks, WorkLock } from "./api.ts";
import { ownLock } from "./own-lock.ts";
import { faultOfService } from "./setup.ts";

/** Locks behind a service binding. The service renews and releases; the callback's result stays in this Worker. */
export class BoundLocks implements OwnLocks {
  readonly #binding: LocksBinding;

  constructor(binding: LocksBinding) {
    this.#binding = binding;
  }

  async request<Result>(
    key: string,
    options: LockOptions | undefined,
    callback: (lock: WorkLock) => Result | Promise<Result>,
  ): Promise<Result> {
    let end: { readonly result: Result } | { readonly error: unknown } | undefined;
    const isCallable = typeof callback === "function";
    const work = async (remote: Parameters<Parameters<LocksBinding["request"]>[2]>[0]) => {
      try {
        const [name, token, fence] = await Promise.all([remote.key, remote.token, remote.fence]);
        const lock: WorkLock = {
          key: name,
          token,
          fence,
          get expiresAt() {
            return remote.expiresAt;
          },
          isHeld: () => remote.isHeld(),
        };
        end = { result: await callback(lock) };
      } catch (error) {
        end = { error };
        throw error;
      }
    };
    try {
      await asked(() => this.#binding.request(key, options, isCallable ? work : callback));
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

/** Throws what is wrong with the setup, if the call fails because of that. */
async function asked<Answer>(ask: () => Promise<Answer>): Promise<Answer> {
  try {
    return await ask();
  } catch (error) {
    throw faultOfService(error) ?? error;
  }
}
