import type { KeyRows, LoadedKey } from "../../../src/cloudflare/key/key-commands.ts";
import type { Changes, StoredKey } from "../../../src/core/engine/index.ts";
import { Rows } from "../../engine/stored-engine.ts";

/** What outlives the memory of a key's object: its rows and its alarm. */
export class Disk {
  rows: Rows | undefined;
  isListed = false;
  alarm: number | undefined;
}

/** A key's rows as its object knows them. As in the database, whether the key is listed is stored with the next write. */
export class DiskRows implements KeyRows {
  readonly #disk: Disk;
  #founded: Rows | undefined;
  #isListed = false;

  constructor(disk: Disk) {
    this.#disk = disk;
  }

  get isStored(): boolean {
    return this.#disk.rows !== undefined;
  }

  load(): LoadedKey | undefined {
    const { rows, isListed } = this.#disk;
    this.#founded = undefined;
    this.#isListed = isListed;
    return rows && { key: rows.load(), isListed };
  }

  found({ limit, fence, lastActivity }: Pick<StoredKey, "limit" | "fence" | "lastActivity">): void {
    this.#founded = new Rows({ limit, fence, foundedAt: lastActivity });
  }

  record(isListed: boolean, when?: "at_once"): void {
    this.#isListed = isListed;
    if (when && this.isStored) this.#disk.isListed = isListed;
  }

  write(changes: Changes): void {
    if (changes.isEmpty) return;
    this.#disk.rows ??= this.#founded;
    this.#founded = undefined;
    this.#disk.rows?.write(changes);
    this.#disk.isListed = this.#isListed;
  }

  async deleteAll(): Promise<void> {
    this.#disk.rows = undefined;
    this.#disk.isListed = false;
    this.#disk.alarm = undefined;
    this.#isListed = false;
  }
}
