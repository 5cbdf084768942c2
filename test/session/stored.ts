import type { SessionConfig, SessionOrigin } from "../../src/session/context.ts";
import type { Effect, RecordName, SessionRecords } from "../../src/session/effects.ts";

export const CONFIG: SessionConfig = {
  authToken: undefined,
  adminToken: undefined,
  autoRelease: true,
  defaultLeaseSeconds: 33,
  draining: false,
  httpSessionIdleMs: 20_000,
  readTimeoutMs: 30_000,
  resumeGraceMs: 10_000,
  serverId: "holdfast",
  relay: undefined,
  version: "holdfast/1.0.0",
};

/** What a session has stored, in memory. */
export class Stored implements SessionRecords {
  readonly #keys = new Set<string>();
  readonly #values = new Map<RecordName, unknown>();

  hasKey(key: string): boolean {
    return this.#keys.has(key);
  }

  keys(): string[] {
    return [...this.#keys];
  }

  get(name: RecordName): unknown {
    return this.#values.get(name);
  }

  get isEmpty(): boolean {
    return this.#keys.size === 0 && this.#values.size === 0;
  }

  /** Stores what an effect says. False if it says nothing of that. */
  take(effect: Effect): boolean {
    if (effect.type === "storeKey") this.#keys.add(effect.key);
    else if (effect.type === "forgetKeys") for (const key of effect.keys) this.#keys.delete(key);
    else if (effect.type === "put") this.#values.set(effect.name, effect.value);
    else if (effect.type === "left") {
      if (effect.isAll) this.clear();
      return false;
    } else return false;
    return true;
  }

  clear(): void {
    this.#keys.clear();
    this.#values.clear();
  }
}

/** What a session is made from; its random digits are a count. */
export function origin(records: SessionRecords, change: Partial<SessionOrigin> = {}): SessionOrigin {
  let count = 0;
  const random = () => {
    count += 1;
    return count.toString(16).padStart(32, "0");
  };
  return { session: "s", config: CONFIG, records, random, isStorageWell: () => true, now: 0, ...change };
}
