import type { KeyReport, Locks, LossReason } from "../../client/index.ts";
import { CommandError } from "../output/errors.ts";
import { giveUp } from "../run/key-hold.ts";
import type { KeptLock } from "../service/acquire.ts";
import { connectLocks } from "../service/connected.ts";
import { explained } from "../service/explained.ts";
import type { Target } from "../service/target.ts";

/** Held and awaited together; each is a connection of its own, because a label belongs to a connection. */
export const MAX_KEYS = 64;

export interface Wanted {
  readonly key: string;
  readonly label: string;
  /** 0 tries once. */
  readonly waitMs: number;
}

/** A lock that this process holds and renews. */
export interface HeldLock extends KeptLock {
  readonly label: string;
  readonly since: Date;
}

/** A lock that was lost, and has not been mentioned to the agent yet. */
export interface Loss {
  readonly key: string;
  readonly reason: LossReason;
  readonly at: Date;
}

export type Acquired =
  | { readonly status: "acquired"; readonly held: HeldLock }
  /** This process holds it. Locks are not re-entrant, so waiting for it would not end. */
  | { readonly status: "already_held"; readonly held: HeldLock }
  /** Not free in time. There is no report if it cannot be read. */
  | { readonly status: "busy"; readonly report: KeyReport | null };

export type Released =
  | { readonly status: "released" | "not_held" | "lost" }
  /** The server did not answer: the lock ends with its lease. */
  | { readonly status: "unconfirmed"; readonly leaseSeconds: number };

export interface Waiting {
  /** Ends the wait, and gives up the place in the queue. */
  readonly signal: AbortSignal;
  /** Called with each connection while it waits for the key. */
  readonly waits?: (locks: Locks, waiting: AbortSignal) => void;
}

/** What one agent holds: renewed until it is released, lost, or `close` gives everything back. */
export class AgentLocks {
  readonly #target: Target;
  readonly #tellLost: (loss: Loss) => void;
  readonly #held = new Map<string, HeldLock>();
  readonly #awaited = new Map<string, { readonly label: string; readonly taking: Promise<unknown> }>();
  readonly #closing = new AbortController();
  #losses: Loss[] = [];

  constructor(target: Target, tellLost: (loss: Loss) => void) {
    this.#target = target;
    this.#tellLost = tellLost;
  }

  get held(): HeldLock[] {
    return [...this.#held.values()];
  }

  /** The labels of what it holds and waits for. */
  get labels(): ReadonlySet<string> {
    return new Set([...this.#held.values(), ...this.#awaited.values()].map(({ label }) => label));
  }

  /** The losses since the last call. */
  takeLosses(): Loss[] {
    const losses = this.#losses;
    this.#losses = [];
    return losses;
  }

  /** Throws a `CommandError`, or the signal's reason, leaving nothing at the server. */
  async acquire(wanted: Wanted, waiting: Waiting): Promise<Acquired> {
    const { key } = wanted;
    const held = this.#held.get(key);
    if (held) {
      if (held.lock.isHeld) return { status: "already_held", held };
      throw new CommandError("unavailable", `${key} may be lost: the server is being asked, so try again in a second`);
    }
    if (this.#awaited.has(key)) throw new CommandError("usage", `another call waits for ${key}: cancel it first`);
    if (this.#held.size + this.#awaited.size >= MAX_KEYS) {
      throw new CommandError("full", `${MAX_KEYS} keys are held or awaited here, which is the most: release some`);
    }
    const taking = this.#take(wanted, {
      ...waiting,
      signal: AbortSignal.any([waiting.signal, this.#closing.signal]),
    });
    this.#awaited.set(key, { label: wanted.label, taking });
    try {
      return await taking;
    } finally {
      this.#awaited.delete(key);
    }
  }

  async #take({ key, label, waitMs }: Wanted, { signal, waits }: Waiting): Promise<Acquired> {
    signal.throwIfAborted();
    const since = performance.now();
    const locks = await connectLocks(this.#target, label, signal);
    const over = new AbortController();
    try {
      if (waitMs > 0) waits?.(locks, over.signal);
      const lock = await locks.acquire(key, { signal, timeout: waitMs });
      const held = { lock, locks, label, since: new Date(), waitedSeconds: (performance.now() - since) / 1000 };
      this.#keep(key, held);
      return { status: "acquired", held };
    } catch (error) {
      const reason = explained(this.#target, error, { key });
      const isBusy = reason instanceof CommandError && reason.code === "busy";
      const report = isBusy ? await locks.query(key).catch(() => null) : null;
      await locks.close();
      if (isBusy) return { status: "busy", report };
      throw reason;
    } finally {
      over.abort();
    }
  }

  #keep(key: string, held: HeldLock): void {
    this.#held.set(key, held);
    void held.lock.lost.then(({ reason }) => {
      void held.locks.close();
      // Otherwise it is being released, and the caller is told then.
      if (this.#held.get(key) !== held) return;
      this.#held.delete(key);
      const loss = { key, reason, at: new Date() };
      this.#losses.push(loss);
      this.#tellLost(loss);
    });
  }

  /** Never rejects. */
  async release(key: string): Promise<Released> {
    const held = this.#held.get(key);
    if (!held) return { status: "not_held" };
    this.#held.delete(key);
    let isLost = false;
    void held.lock.lost.then(() => {
      isLost = true;
    });
    if (await giveUp(held)) return { status: "released" };
    if (isLost || held.locks.problem === undefined) return { status: "lost" };
    // The client tells the server when it is back. When the lease is over, there is nothing left to tell.
    setTimeout(() => void held.locks.close(), held.lock.lease).unref();
    return { status: "unconfirmed", leaseSeconds: held.lock.lease / 1000 };
  }

  /** Gives back what a cancelled call was granted, if the answer did not leave. */
  async giveBack({ lock }: HeldLock): Promise<void> {
    if (this.#held.get(lock.key)?.lock === lock) await this.release(lock.key);
  }

  /** Ends all waits and gives everything back. Never rejects. Resolves with the keys whose release is not certain. */
  async close(): Promise<string[]> {
    this.#closing.abort(new CommandError("unavailable", "this server is shutting down"));
    await Promise.allSettled([...this.#awaited.values()].map(({ taking }) => taking));
    const results = await Promise.all(
      [...this.#held.keys()].map(async (key) => ({ key, ...(await this.release(key)) })),
    );
    return results.filter(({ status }) => status === "unconfirmed").map(({ key }) => key);
  }
}
