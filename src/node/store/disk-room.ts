import { existsSync, rmSync, statfsSync, writeFileSync } from "node:fs";
import { dirname } from "node:path";

/** With less free, nothing new is taken on. */
const MIN_FREE_BYTES = 8 * 2 ** 20;

/**
 * Room on the disk for renewals and releases when nothing else fits. They change pages that are there, but the log starts
 * over only once all its pages are written back, and new ones among them make the database grow. For that a file is kept
 * in reserve, and deleted when the disk is full.
 */
export class DiskRoom {
  readonly #directory: string;
  readonly #reserve: string;
  readonly #reserveBytes: number;

  constructor(databasePath: string, reserveBytes: number) {
    this.#directory = dirname(databasePath);
    this.#reserve = `${databasePath}-reserve`;
    this.#reserveBytes = reserveBytes;
    if (this.#freeBytes >= MIN_FREE_BYTES + reserveBytes) this.#keepReserve();
  }

  /** Whether there is room for something new. */
  isEnough(): boolean {
    const free = this.#freeBytes;
    if (existsSync(this.#reserve)) return free >= MIN_FREE_BYTES;
    return free >= MIN_FREE_BYTES + this.#reserveBytes && this.#keepReserve();
  }

  /** Whether a file of this size leaves room for something new. */
  isEnoughFor(bytes: number): boolean {
    return this.#freeBytes >= MIN_FREE_BYTES + bytes;
  }

  /** The disk is full. */
  useReserve(): void {
    rmSync(this.#reserve, { force: true });
  }

  #keepReserve(): boolean {
    if (existsSync(this.#reserve)) return true;
    try {
      writeFileSync(this.#reserve, Buffer.alloc(this.#reserveBytes), { mode: 0o600 });
      return true;
    } catch {
      this.useReserve();
      return false;
    }
  }

  /** Infinity if it is not known: commits will tell. */
  get #freeBytes(): number {
    try {
      const { bavail, bsize } = statfsSync(this.#directory);
      return bavail * bsize;
    } catch {
      return Number.POSITIVE_INFINITY;
    }
  }
}
