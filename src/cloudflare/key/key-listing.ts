import type { Fence } from "../../core/engine/index.ts";
import type { LabelsOf } from "../../core/metrics/families.ts";
import { admission } from "../calls/admission.ts";

/** After a failed call, the key is listed again by the first command that comes this much later. */
const RETRY_MS = 60_000;

/** A key, and its last fence. */
export interface KeyEntry {
  readonly key: string;
  readonly fence: Fence;
}

/** A key that is to be listed. */
export interface NewListing extends KeyEntry {
  /** Since when it should have been. */
  readonly lateMs?: number;
}

/** The shard of the directory that lists the key. */
export interface KeyDirectory {
  listKey(listing: NewListing): Promise<void>;
  admitKey(entry: KeyEntry): Promise<{ readonly isAdmitted: boolean }>;
  unlistKey(entry: KeyEntry): Promise<void>;
}

/** What the key object gives its listing to work with. */
interface KeyObjectParts {
  readonly name: string;
  directory(): KeyDirectory;
  waitUntil(promise: Promise<unknown>): void;
  /** What came of a call. */
  count(result: LabelsOf<"listings_total">["result"]): void;
  /** The directory is out of reach. */
  failed(error: unknown): void;
  now(): number;
  /** Wakes the object at this time or earlier. */
  wakeBy(time: number): void;
  /** The key's rows say from now on whether it is listed: with the next write, or at once. */
  record(isListed: boolean, when?: "at_once"): void;
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
  /** The fence under which the key was admitted, if it has not been listed since. */
  #admitted: Fence | undefined;
  #retryAt = 0;
  /** When the first of the calls that failed was made, until one succeeds. */
  #lateSince: number | undefined;

  constructor(parts: KeyObjectParts) {
    this.#parts = parts;
  }

  /** False if the directory may not list the key. */
  get isListed(): boolean {
    return this.#isListed;
  }

  /** Resolves when the directory has answered whether it admits the key; undefined if it is not being asked. */
  get asking(): Promise<unknown> | undefined {
    return this.#asking?.catch(() => {});
  }

  /** The directory is being asked to admit or to list the key. */
  get isPending(): boolean {
    return this.#isListing || this.#asking !== undefined;
  }

  /** The key was loaded. Its rows may say more than is certain. */
  loaded(isListed: boolean): void {
    this.#set(isListed);
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
    if (this.isPending || this.#parts.now() < this.#retryAt) return;
    this.#isListing = true;
    this.#parts.waitUntil(this.#list(fence));
  }

  /**
   * Removes the entry of a key that is about to be deleted. If the key is used meanwhile, it is listed again. False if the
   * directory is out of reach.
   */
  async unlist(fence: Fence): Promise<boolean> {
    const { name, directory, count } = this.#parts;
    this.#set(false);
    try {
      await directory().unlistKey({ key: name, fence });
      count("unlisted");
      return true;
    } catch (error) {
      this.#failed(error);
      return false;
    }
  }

  /** The directory removes the entry of an idle key. Its rows may say that there is one, although it was not trusted. */
  yield(): void {
    this.#isListed = false;
    this.#parts.record(false, "at_once");
  }

  /** The key was admitted, and nothing came of it. */
  withdraw(): void {
    if (this.#admitted !== undefined) this.#parts.waitUntil(this.unlist(this.#admitted));
  }

  async #list(fence: Fence): Promise<void> {
    const { name, directory, count, now, wakeBy } = this.#parts;
    const begunAt = now();
    const since = this.#lateSince ?? begunAt;
    try {
      await directory().listKey({ key: name, fence, lateMs: begunAt - since });
      this.#set(true);
      count("listed");
    } catch (error) {
      this.#lateSince = since;
      this.#failed(error);
      this.#retryAt = now() + RETRY_MS;
      wakeBy(this.#retryAt);
    } finally {
      this.#isListing = false;
    }
  }

  async #ask(fence: Fence): Promise<boolean> {
    const { name, directory, count } = this.#parts;
    const { isAdmitted } = await admission(directory().admitKey({ key: name, fence }));
    count(isAdmitted ? "admitted" : "refused");
    if (isAdmitted) {
      this.#set(true);
      this.#admitted = fence;
    }
    return isAdmitted;
  }

  #failed(error: unknown): void {
    const { count, failed } = this.#parts;
    count("failed");
    failed(error);
  }

  #set(isListed: boolean): void {
    this.#admitted = undefined;
    this.#lateSince = undefined;
    this.#isListed = isListed;
    this.#parts.record(isListed);
  }
}
