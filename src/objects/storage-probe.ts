import { DurableObject } from "cloudflare:workers";
import { log } from "../log.ts";
import type { Env } from "./env.ts";

/** Somewhat more than the files of a new session and a new key take. */
const PROBE_BYTES = 262_144;
const GOOD_FOR_MS = 2_000;
const BAD_FOR_MS = 1_000;
const PROBE_TAKES_AT_MOST_MS = 2_000;

/** Has nothing to store but the proof that something can be stored. */
export class StorageProbeObject extends DurableObject<Env> {
  /** Takes up new room and gives it back. It fails, and the object with it, where that cannot be stored. */
  async prove(): Promise<void> {
    this.ctx.storage.kv.put("probe", new Uint8Array(PROBE_BYTES));
    await this.ctx.storage.sync();
    await this.ctx.storage.deleteAll();
  }
}

/**
 * What was found last, for everything that runs in this process. Only values are shared: a promise belongs to the
 * request that made it.
 */
let known = { isWritable: true, until: Number.NEGATIVE_INFINITY };

/**
 * Whether something new can be stored, or could a few seconds ago. An object whose write fails is reset by the platform
 * with its sockets, before it can answer anybody: so it has to be known before.
 */
export class StorageHealth {
  readonly #env: Env;
  readonly #looksAhead: boolean;

  constructor(env: Env) {
    this.#env = env;
    // Cloudflare's disks do not fill up, and each look costs two rows there.
    this.#looksAhead = env.SELF_HOSTED !== undefined;
  }

  /** False if new work cannot be stored. Costs nothing, and answers at once, unless it could not be stored before. */
  mayStore(): true | Promise<boolean> {
    if (!known.isWritable) return this.isWritable();
    if (this.#looksAhead) void this.isWritable();
    return true;
  }

  /** Something has failed that a full disk would explain: looks at once, whatever was found before. */
  doubt(): void {
    if (!known.isWritable) return;
    known = { ...known, until: Number.NEGATIVE_INFINITY };
    void this.isWritable();
  }

  async isWritable(): Promise<boolean> {
    const now = Date.now();
    if (known.until - GOOD_FOR_MS <= now && now < known.until) return known.isWritable;
    // Whoever asks meanwhile hears what was found last.
    known = { ...known, until: now + BAD_FOR_MS };
    try {
      const tooLate = scheduler.wait(PROBE_TAKES_AT_MOST_MS).then(() => Promise.reject(new Error("no answer")));
      await Promise.race([this.#env.STORAGE_PROBE.getByName("probe").prove(), tooLate]);
      known = { isWritable: true, until: now + GOOD_FOR_MS };
    } catch (error) {
      log("error", "storage_unwritable", { error: String(error) });
      known = { isWritable: false, until: now + BAD_FOR_MS };
    }
    return known.isWritable;
  }
}
