import type { SessionConfig, SessionOrigin } from "../../src/core/session/context.ts";
import type { Effect, RecordName, SessionRecords } from "../../src/core/session/effects.ts";

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
  /** Keys that are kept with the socket of the session, and lost with it; undefined if it has none to keep them. */
  #keysOfSocket: Set<string> | undefined;

  /** The session has a socket. If it ends with it, it needs its keys no longer than that. */
  keepKeysWithSocket(): void {
    if (!this.#values.has("resumption") && !this.#values.has("ending")) this.#keysOfSocket ??= new Set();
  }

  loseSocket(): void {
    this.#keysOfSocket = undefined;
  }

  hasKey(key: string): boolean {
    return this.#keys.has(key) || this.#keysOfSocket?.has(key) === true;
  }

  keys(): string[] {
    return [...this.#keys, ...(this.#keysOfSocket ?? [])];
  }

  get(name: RecordName): unknown {
    return this.#values.get(name);
  }

  get isEmpty(): boolean {
    return this.#keys.size === 0 && this.#values.size === 0;
  }

  /** Stores what an effect says. False if it says nothing of that. */
  take(effect: Effect): boolean {
    if (effect.type === "storeKey") (this.#keysOfSocket ?? this.#keys).add(effect.key);
    else if (effect.type === "forgetKeys") for (const key of effect.keys) this.#forget(key);
    else if (effect.type === "put") this.#put(effect.name, effect.value);
    else if (effect.type === "left") {
      if (effect.isAll) this.clear();
      return false;
    } else return false;
    return true;
  }

  clear(): void {
    this.#keys.clear();
    this.#values.clear();
    this.#keysOfSocket = undefined;
  }

  #forget(key: string): void {
    this.#keys.delete(key);
    this.#keysOfSocket?.delete(key);
  }

  #put(name: RecordName, value: unknown): void {
    this.#values.set(name, value);
    if (name !== "resumption" && name !== "ending") return;
    for (const key of this.#keysOfSocket ?? []) this.#keys.add(key);
    this.#keysOfSocket = undefined;
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
