import type { Fence } from "../../core/engine/index.ts";
import { logged } from "../../log.ts";
import { directoryOfKey } from "../calls/directories.ts";
import type { Env } from "../env.ts";

/** After a failed call, the key is listed again by the first command that comes this much later. */
const RETRY_MS = 60_000;

/** What the key object gives its listing to work with. */
interface KeyObjectParts {
  readonly env: Env;
  readonly name: string;
  waitUntil(promise: Promise<unknown>): void;
  /** Wakes the object at this time or earlier. */
  wakeBy(time: number): void;
  /** The key's rows say from now on, with the next write, whether it is listed. */
  record(isListed: boolean): void;
}

/**
 * A key's entry in the directory, which reports and the cap on keys count. No grant waits for it, unless a cap is set.
 * Every message carries the key's last fence, and the directory ignores one that is older than what it has: messages may
 * come late, twice or not at all. See ADR 21.
 */
export class KeyListing {
  readonly #parts: KeyObjectParts;
  #isListed = false;
  /** A call that lists the key is in flight. */
  #isListing = false;
  #asking: Promise<boolean> | undefined;
  #retryAt = 0;

  constructor(parts: KeyObjectParts) {
    this.#parts = parts;
  }

  /** False if the directory may not list the key. */
  get isListed(): boolean {
    return this.#isListed;
  }

  /** The directory is being asked to admit or to list the key. */
  get isPending(): boolean {
    return this.#isListing || this.#asking !== undefined;
  }

  /** The key was loaded, or is gone. */
  loaded(isListed: boolean): void {
    this.#isListed = isListed;
  }

  /** Asks for a place under the cap on keys; `fence` is that of the next grant. False if there is none. */
  admit(fence: Fence): Promise<boolean> {
    this.#asking ??= this.#ask(fence).finally(() => {
      this.#asking = undefined;
    });
    return this.#asking;
  }

  /** Has the key listed, in the background. */
  list(fence: Fence): void {
    if (this.isPending || Date.now() < this.#retryAt) return;
    const { waitUntil, wakeBy } = this.#parts;
    this.#isListing = true;
    const listing = this.#directory.listKey(this.#parts.name, fence).then(
      () => this.#set(true),
      (error: unknown) => {
        logged("directory_unreachable")(error);
        this.#retryAt = Date.now() + RETRY_MS;
        wakeBy(this.#retryAt);
      },
    );
    const listed = listing.finally(() => {
      this.#isListing = false;
    });
    waitUntil(listed);
  }

  /** Removes the entry of a key that is about to be deleted. If the key is used meanwhile, it is listed again. */
  async unlist(fence: Fence): Promise<void> {
    this.#isListed = false;
    await this.#directory.unlistKey(this.#parts.name, fence);
  }

  /** The directory removes the entry of an idle key, to make room for another. */
  yield(): void {
    this.#isListed = false;
  }

  async #ask(fence: Fence): Promise<boolean> {
    const isAdmitted = await this.#directory.admitKey(this.#parts.name, fence);
    if (isAdmitted) this.#set(true);
    return isAdmitted;
  }

  #set(isListed: boolean): void {
    this.#isListed = isListed;
    this.#parts.record(isListed);
  }

  get #directory() {
    return directoryOfKey(this.#parts.env, this.#parts.name);
  }
}
