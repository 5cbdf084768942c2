import {
  connect,
  type Lock,
  LockLostError,
  type Locks,
  type LossReason,
  type Status,
  type Ticket,
} from "../../../client/index.ts";
import { serviceAddress } from "../../shared/address.ts";
import type { ClientEvent } from "./event.ts";
import { Pause } from "./pause.ts";
import { failureInWords } from "./words.ts";

/** What the client asks for. */
export interface Terms {
  readonly key: string;
  readonly limit: number;
  readonly leaseMs: number;
}

/** What a client holds or waits for, as far as it knows. */
export type Standing =
  | { readonly kind: "nothing" }
  | { readonly kind: "enqueuing" }
  /** Enqueued, and not waiting yet. */
  | { readonly kind: "enqueued" }
  | { readonly kind: "waiting" }
  | { readonly kind: "holding"; readonly fence: string }
  | { readonly kind: "releasing" }
  /** The fence is unknown if the lock was lost before the client received the grant. */
  | { readonly kind: "lost"; readonly reason: LossReason; readonly fence: string | undefined };

export interface PlayerOptions {
  readonly name: string;
  /** Unique at the service. */
  readonly label: string;
  readonly token: string | undefined;
  /** Its state has changed. */
  readonly changed: () => void;
  readonly tell: (event: ClientEvent) => void;
}

const NOTHING: Standing = { kind: "nothing" };

/**
 * One client of the playground: its own session at the service, driven by clicks. It knows only what a client knows; its
 * place in the queue comes from the report about the key.
 */
export class Player {
  readonly name: string;
  readonly label: string;
  readonly #options: PlayerOptions;
  readonly #pause = new Pause();
  readonly #locks: Locks;
  #connection: Status | "connecting" = "connecting";
  #standing: Standing = NOTHING;
  #problem: string | undefined;
  #key = "";
  #stop = new AbortController();
  #ticket: Ticket | undefined;
  #lock: Lock | undefined;
  #isClosed = false;

  constructor(options: PlayerOptions) {
    this.name = options.name;
    this.label = options.label;
    this.#options = options;
    const { label, token } = options;
    const { clock, WebSocket } = this.#pause;
    this.#locks = connect(serviceAddress(), { label, clock, WebSocket, ...(token !== undefined && { token }) });
    void this.#followConnection();
  }

  get connection(): Status | "connecting" {
    return this.#connection;
  }

  get standing(): Standing {
    return this.#standing;
  }

  /** Why its last request failed. */
  get problem(): string | undefined {
    return this.#problem;
  }

  get isFrozen(): boolean {
    return this.#pause.isPaused;
  }

  /** The fence of the lock that it holds, or that it lost and would still use. */
  get fence(): string | undefined {
    return this.#standing.kind === "holding" || this.#standing.kind === "lost" ? this.#standing.fence : undefined;
  }

  acquire({ key, limit, leaseMs }: Terms): void {
    this.#key = key;
    void this.#take((signal) => this.#locks.acquire(key, { limit, lease: leaseMs, signal }));
  }

  async enqueue({ key, limit, leaseMs }: Terms): Promise<void> {
    this.#key = key;
    const signal = this.#begin({ kind: "enqueuing" });
    try {
      this.#ticket = await this.#locks.enqueue(key, { limit, lease: leaseMs, signal });
      if (this.#isClosed) return;
      this.#stand({ kind: "enqueued" });
    } catch (error) {
      if (!signal.aborted) this.#fail(error);
    }
  }

  wait(): void {
    const ticket = this.#ticket;
    if (ticket) void this.#take((signal) => ticket.wait({ signal }));
  }

  /** Leaves the queue, whether it is waiting or only enqueued. */
  giveUp(): void {
    this.#stop.abort();
    void this.#ticket?.leave();
    this.#ticket = undefined;
    this.#stand(NOTHING);
    this.#tell({ type: "gave up" });
  }

  async release(): Promise<void> {
    const lock = this.#lock;
    this.#lock = undefined;
    this.#stand({ kind: "releasing" });
    // Log it before the service releases it: otherwise the next grant would be logged first.
    this.#tell({ type: "released" });
    await lock?.release();
    if (this.#standing.kind === "releasing") this.#stand(NOTHING);
  }

  freeze(): void {
    this.#pause.pause();
    this.#tell({ type: "froze" });
  }

  thaw(): void {
    this.#tell({ type: "thawed" });
    this.#pause.resume();
    this.#options.changed();
  }

  /** Its place was granted, and the lease ended before the client waited for it. */
  lapse(): void {
    this.#ticket = undefined;
    this.#stand(NOTHING);
    this.#tell({ type: "lapsed" });
  }

  /** Forgets the state of the previous key. */
  forget(): void {
    this.#problem = undefined;
    this.#stand(NOTHING);
  }

  /** Like a closed tab: releases everything at once. */
  close(): Promise<void> {
    this.#isClosed = true;
    this.#pause.resume();
    return this.#locks.close();
  }

  async #followConnection(): Promise<void> {
    for await (const status of this.#locks.statuses()) {
      this.#connection = status;
      this.#options.changed();
    }
  }

  async #take(ask: (signal: AbortSignal) => Promise<Lock>): Promise<void> {
    const since = performance.now();
    const signal = this.#begin({ kind: "waiting" });
    try {
      const lock = await ask(signal);
      this.#ticket = undefined;
      this.#hold(lock, performance.now() - since);
    } catch (error) {
      if (!signal.aborted) this.#fail(error);
    }
  }

  #hold(lock: Lock, waitedMs: number): void {
    this.#lock = lock;
    this.#stand({ kind: "holding", fence: lock.fence });
    this.#tell({ type: "acquired", fence: lock.fence, waitedMs });
    // The page may wake the client while it is frozen: it has not read its input yet.
    void lock.lost.then(({ reason }) => this.#pause.run(() => this.#lose(lock, reason)));
  }

  #lose(lock: Lock, reason: LossReason): void {
    if (this.#isClosed || this.#lock !== lock) return;
    this.#lock = undefined;
    this.#stand({ kind: "lost", reason, fence: lock.fence });
    this.#tell({ type: "lost", reason, fence: lock.fence });
  }

  #fail(error: unknown): void {
    if (this.#isClosed) return;
    this.#ticket = undefined;
    if (error instanceof LockLostError) {
      this.#stand({ kind: "lost", reason: error.reason, fence: undefined });
      this.#tell({ type: "lost", reason: error.reason, fence: undefined });
      return;
    }
    this.#problem = failureInWords(error, this.#key);
    this.#stand(NOTHING);
    this.#tell({ type: "failed", problem: this.#problem });
  }

  /** The signal ends the request. */
  #begin(standing: Standing): AbortSignal {
    this.#stop = new AbortController();
    this.#problem = undefined;
    this.#stand(standing);
    return this.#stop.signal;
  }

  #stand(standing: Standing): void {
    this.#standing = standing;
    this.#options.changed();
  }

  #tell(event: ClientEvent): void {
    if (!this.#isClosed) this.#options.tell(event);
  }
}
