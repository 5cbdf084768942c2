import { DurableObject } from "cloudflare:workers";
import { log } from "../log.ts";
import type { Env } from "./env.ts";
import { objectsOf } from "./placement.ts";

/** Slightly more than the files of a new session and a new key take. */
const PROBE_BYTES = 262_144;
const GOOD_FOR_MS = 2_000;
const BAD_FOR_MS = 1_000;
const PROBE_TAKES_AT_MOST_MS = 2_000;

/** Stores something only to prove that storing works. */
export class StorageProbeObject extends DurableObject<Env> {
  /** Allocates storage and frees it. Fails, resetting the object, if the storage cannot be written. */
  async prove(): Promise<void> {
    this.ctx.storage.kv.put("probe", new Uint8Array(PROBE_BYTES));
    await this.ctx.storage.sync();
    await this.ctx.storage.deleteAll();
  }
}

/** The last result, shared in this process. Only values are shared: a promise belongs to its request. */
let known = { isWritable: true, until: Number.NEGATIVE_INFINITY };

/**
 * Whether new data can be stored, or could a few seconds ago. The platform resets an object whose write fails, sockets
 * included, before it can answer, so this has to be known in advance.
 */
export class StorageHealth {
  readonly #env: Env;
  readonly #looksAhead: boolean;

  constructor(env: Env) {
    this.#env = env;
    // Cloudflare's disks do not fill up, and each probe costs two rows there.
    this.#looksAhead = env.SELF_HOSTED !== undefined;
  }

  /** False if new work cannot be stored. Free and synchronous unless the last probe failed. */
  mayStore(): true | Promise<boolean> {
    if (!known.isWritable) return this.isWritable();
    if (this.#looksAhead) void this.isWritable();
    return true;
  }

  /** Probes immediately after a failure that a full disk would explain, whatever the last result was. */
  doubt(): void {
    if (!known.isWritable) return;
    known = { ...known, until: Number.NEGATIVE_INFINITY };
    void this.isWritable();
  }

  async isWritable(): Promise<boolean> {
    const now = Date.now();
    if (known.until - GOOD_FOR_MS <= now && now < known.until) return known.isWritable;
    // Concurrent callers get the last result.
    known = { ...known, until: now + BAD_FOR_MS };
    try {
      const tooLate = scheduler.wait(PROBE_TAKES_AT_MOST_MS).then(() => Promise.reject(new Error("no answer")));
      await Promise.race([objectsOf(this.#env, "STORAGE_PROBE").getByName("probe").prove(), tooLate]);
      known = { isWritable: true, until: now + GOOD_FOR_MS };
    } catch (error) {
      log("error", "storage_unwritable", { error: String(error) });
      known = { isWritable: false, until: now + BAD_FOR_MS };
    }
    return known.isWritable;
  }
}
