import { attempt } from "./attempt.ts";
import { clean, refresh, release } from "./change.ts";
import type { MadeLock } from "./create.ts";
import { asFileLockError, HeldError, NotOwnerError, TimeoutError } from "./errors.ts";
import { examineLock } from "./examine.ts";
import { busyError, underGuard } from "./guard.ts";
import { type Holder, holderOf, isStale, type Owner } from "./holder.ts";
import { type FileLockOptions, readOptions, type Settings } from "./options.ts";
import { absolutePath, checkPath, type LockPath } from "./paths.ts";
import { deadlineAfter, type Limits, until } from "./waiting.ts";

/** How long to wait, in seconds. Without a timeout there is no limit; 0 means exactly one attempt. */
export interface WaitOptions {
  readonly timeout?: number | undefined;
  readonly signal?: AbortSignal | undefined;
}

export interface ReleaseOptions {
  readonly force?: boolean;
  readonly timeout?: number | undefined;
}

export interface RefreshOptions {
  readonly tag?: string | undefined;
  readonly timeout?: number | undefined;
}

/** An acquired lock: what its file says, and how it was acquired. */
export interface Acquired {
  readonly pid: number;
  readonly timestamp: number;
  readonly tag: string | null;
  readonly nonce: string;
  /** Whether a stale lock was removed to acquire it. */
  readonly tookOver: boolean;
  readonly waitedMs: number;
}

/** `released: false`: there was nothing to release. */
export type Released =
  | { readonly released: false }
  | { readonly released: true; readonly forced: boolean; readonly holder: Holder };

export type FileLockStatus =
  | { readonly state: "free" }
  | { readonly state: "held" | "stale" | "malformed"; readonly isStale: boolean; readonly holder: Holder };

/**
 * A lock that is held while a file exists. Advisory: it binds the programs that follow the protocol. Of any number of
 * contenders at most one holds it, also when they take over a stale lock at the same time.
 *
 * ```ts
 * await using lock = new FileLock("/run/backup.lock", { tag: "nightly" });
 * await lock.acquire({ timeout: 60 });
 * ```
 */
export class FileLock implements AsyncDisposable {
  readonly path: string;
  readonly #settings: Settings;
  readonly #absolutePath: string;
  /** The owner whose lock file counts as this lock's; undefined while there is none. */
  #owner: Owner | undefined;

  /** Throws a `RangeError` for bad options. Accesses no file yet. */
  constructor(path: string, options: FileLockOptions = {}) {
    this.path = path;
    this.#absolutePath = absolutePath(path);
    this.#settings = readOptions(options);
    if (options.ownerPid !== undefined) this.#owner = { kind: "pid", pid: this.#settings.pid };
  }

  /** Resolves once the lock is yours and its file is on disk. Rejects with a `HeldError` if another holder has it. */
  tryAcquire(): Promise<Acquired> {
    return this.#do(async (where) => {
      const startedAt = performance.now();
      const result = await attempt(where, this.#settings, { deadline: Number.POSITIVE_INFINITY });
      if (result.kind === "acquired") return this.#hold(result.lock, result.tookOver, startedAt);
      if (result.kind === "held") throw new HeldError(this.path, result.holder);
      throw busyError(where);
    });
  }

  /**
   * Waits until the lock is yours. Rejects with a `TimeoutError` when the timeout has passed, and with the signal's
   * reason if it aborts; no file of this lock is left then. Contenders are not served in order.
   */
  acquire({ timeout, signal }: WaitOptions = {}): Promise<Acquired> {
    return this.#do(async (where) => {
      const startedAt = performance.now();
      const limits: Limits = { deadline: deadlineAfter(timeout), signal };
      let holder: Holder | undefined;
      const acquired = await until(
        async () => {
          const result = await attempt(where, this.#settings, limits);
          if (result.kind === "acquired") return this.#hold(result.lock, result.tookOver, startedAt);
          holder = result.holder;
          return undefined;
        },
        this.#settings.retryMs,
        limits,
      );
      if (!acquired) throw new TimeoutError(this.path, holder);
      if (signal?.aborted) {
        await this.release();
        signal.throwIfAborted();
      }
      return acquired;
    });
  }

  /**
   * Removes the lock file if it is this lock's, durably. Rejects with a `NotOwnerError` if it was lost to another
   * holder. Calling it again changes nothing. With `force`, removes any lock file. If another process is changing the
   * file, waits for it for at most `timeout` seconds (default and maximum: 15), then rejects with an `IoError`,
   * `EBUSY`.
   */
  release({ force = false, timeout }: ReleaseOptions = {}): Promise<Released> {
    return this.#do(async (where) => {
      const owner = force ? "anyone" : this.#owner;
      if (owner === undefined) return { released: false };
      const result = await underGuard(where, () => release(where, owner, this.#settings.warn), timeout);
      if (this.#owner?.kind === "nonce") this.#owner = undefined;
      if (result.kind === "not-owner") throw new NotOwnerError(this.path, result.holder);
      if (result.kind === "free") return { released: false };
      return { released: true, forced: force, holder: result.holder };
    });
  }

  /**
   * Sets the timestamp of the lock file to the current time, so that it does not become stale, and its tag if one is
   * given. Rejects with a `NotOwnerError` if the file is no longer this lock's. `timeout` is as for `release`.
   */
  refresh({ tag, timeout }: RefreshOptions = {}): Promise<{ readonly timestamp: number }> {
    return this.#do(async (where) => {
      const owner = this.#owner;
      if (!owner) throw new NotOwnerError(this.path, undefined);
      const result = await underGuard(where, () => refresh(where, owner, tag), timeout);
      if (result.kind === "refreshed") return { timestamp: result.timestamp };
      throw new NotOwnerError(this.path, result.kind === "free" ? undefined : result.holder);
    });
  }

  /** What is at the path now. */
  status(): Promise<FileLockStatus> {
    return this.#do(async (where) => {
      const seen = examineLock(where);
      if (seen.kind === "absent") return { state: "free" };
      const stale = isStale(seen, this.#settings.stale);
      const state = seen.text.kind === "malformed" ? "malformed" : stale ? "stale" : "held";
      return { state, isStale: stale, holder: holderOf(seen) };
    });
  }

  /** Resolves once the path is free or stale; acquires nothing. Rejects like `acquire`. */
  waitFree({ timeout, signal }: WaitOptions = {}): Promise<{ readonly waitedMs: number }> {
    return this.#do(async () => {
      const startedAt = performance.now();
      const limits: Limits = { deadline: deadlineAfter(timeout), signal };
      let holder: Holder | undefined;
      const isFree = await until(
        async () => {
          const status = await this.status();
          if (status.state === "free" || status.isStale) return true;
          holder = status.holder;
          return undefined;
        },
        this.#settings.retryMs,
        limits,
      );
      if (!isFree) throw new TimeoutError(this.path, holder);
      return { waitedMs: performance.now() - startedAt };
    });
  }

  /**
   * Removes a stale lock file, and files that crashed processes have left beside it for over a minute. Rejects with a
   * `HeldError` if the lock is held; that lock stays.
   */
  clean(): Promise<{ readonly isRemoved: boolean; readonly leftovers: number }> {
    return this.#do(async (where) => {
      const { stale, warn } = this.#settings;
      const result = await underGuard(where, () => clean(where, stale, warn));
      if (result.kind === "held") throw new HeldError(this.path, result.holder);
      return { isRemoved: result.isRemoved, leftovers: result.leftovers };
    });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.release();
  }

  #hold({ pid, timestamp, tag, nonce }: MadeLock, tookOver: boolean, startedAt: number): Acquired {
    if (this.#owner?.kind !== "pid") this.#owner = { kind: "nonce", nonce };
    return { pid, timestamp, tag: tag ?? null, nonce, tookOver, waitedMs: performance.now() - startedAt };
  }

  /** Checks the path and converts system errors to those of this library. */
  async #do<T>(operation: (where: LockPath) => Promise<T>): Promise<T> {
    try {
      return await operation(checkPath(this.path, this.#absolutePath));
    } catch (error) {
      throw asFileLockError(this.path, error);
    }
  }
}
