/** One key with a clock that the test moves, for tests told step by step. */
import type {
  CancelOptions,
  CommandContext,
  KeyEngine,
  KeyEvent,
  NoticeAnswer,
  Observation,
} from "../../src/core/engine/index.ts";
import { type Call, type Result, StoredEngine } from "./stored-engine.ts";

export interface StoryOptions {
  readonly limit?: number;
  readonly start?: number;
  readonly maxWaiters?: number;
  readonly gcMaxIdleMs?: number;
  readonly fenceFloor?: bigint;
}

interface AcquireOptions {
  readonly request?: string;
  readonly lease?: number;
  readonly wait?: number;
  readonly limit?: number;
  readonly asksWanted?: true;
  readonly isWatched?: true;
  readonly steals?: true;
}

type Status = { readonly status: string; readonly token?: string; readonly leaseSeconds?: number };

export class Story {
  readonly key: StoredEngine;
  now: number;
  /** Events since they were last read. */
  events: KeyEvent[] = [];
  /** Observations since they were last read. */
  observations: Observation[] = [];
  /** Rows written by the last call. */
  rowsWritten = 0;
  readonly #limit: number;
  readonly #rules: Omit<CommandContext, "now" | "salt">;
  #salts = 0;

  constructor({ limit = 1, start = 1_700_000_000_000, ...rules }: StoryOptions = {}) {
    this.now = start;
    this.#limit = limit;
    this.#rules = { maxWaiters: 0, gcMaxIdleMs: 60_000, fenceFloor: 0n, ...rules };
    this.key = new StoredEngine(limit, start);
  }

  get engine(): KeyEngine {
    return this.key.engine;
  }

  context(): CommandContext {
    const salt = () => {
      this.#salts += 1;
      return this.#salts.toString(16).padStart(16, "0");
    };
    return { now: this.now, salt, ...this.#rules };
  }

  acquire(session: string, options: AcquireOptions = {}): Status {
    const { request = `${session}-l`, lease = 33, wait = 0, limit = this.#limit, ...more } = options;
    const command = { session, request, limit, leaseSeconds: lease, waitMs: wait * 1000, mayWait: true, ...more };
    return this.run({ do: "acquire", command });
  }

  /** Acquires a slot that must be free; returns its token. */
  hold(session: string, options: Pick<AcquireOptions, "request" | "lease" | "asksWanted" | "isWatched"> = {}): string {
    const { token } = this.acquire(session, options);
    if (token === undefined) throw new Error(`${session} does not hold`);
    return token;
  }

  enqueue(session: string, options: { request?: string; lease?: number; limit?: number } = {}): Status {
    const { request = `${session}-e`, lease = 33, limit = this.#limit } = options;
    return this.run({ do: "enqueue", command: { session, request, limit, leaseSeconds: lease } });
  }

  wait(session: string, options: { request?: string; wait?: number; takesOver?: true } = {}): Status {
    const { request = `${session}-w`, wait = 0, takesOver } = options;
    const command = { session, request, waitMs: wait * 1000, mayWait: true };
    return this.run({ do: "wait", command: takesOver ? { ...command, takesOver } : command });
  }

  release(token: string, session = "somebody"): Status {
    return this.run({ do: "release", token, session });
  }

  /** Steals the hold with this token. */
  steal(token: string): Status {
    return this.run({ do: "steal", fence: token.slice(0, 16) });
  }

  renew(token: string, leaseSeconds = 33): Status {
    return this.run({ do: "renew", token, leaseSeconds });
  }

  pickUp(request: string): Status {
    return this.run({ do: "pickUp", request });
  }

  cancel(request: string, options: CancelOptions = {}): void {
    this.run({ do: "cancel", request, ...options });
  }

  answer(request: string, answer: NoticeAnswer): void {
    this.run({ do: "answer", request, answer });
  }

  leave(session: string, { keepsReported = false } = {}): void {
    this.run({ do: "leave", session, keepsReported });
  }

  tick(): void {
    this.run({ do: "tick" });
  }

  reload(): void {
    this.run({ do: "reload" });
  }

  /** Moves the clock; the key does not notice until the next call. */
  later(seconds: number): this {
    this.now += seconds * 1000;
    return this;
  }

  /** The sessions that hold, in grant order. */
  holders(): string[] {
    const held = [...this.key.rows.slots.values()].filter(({ isHeld }) => isHeld);
    return held.sort((a, b) => (a.token < b.token ? -1 : 1)).map(({ session }) => session);
  }

  waiting(): number {
    return this.engine.view().waiters;
  }

  /** Notices since they were last read, as "request kind". */
  notices(): string[] {
    const { events } = this;
    this.events = [];
    return events.flatMap((event) => (event.type === "notice" ? [`${event.request} ${event.kind}`] : []));
  }

  /** Observations since they were last read. */
  observed(): Observation[] {
    const { observations } = this;
    this.observations = [];
    return observations;
  }

  run(call: Call): Status {
    const result: Result = this.key.run(call, this.context());
    this.events.push(...result.events);
    this.observations.push(...result.observations);
    this.rowsWritten = result.rowsWritten;
    return (result.outcome ?? { status: "done" }) as Status;
  }
}

export const fenceOf = (token: string | undefined): bigint => BigInt(`0x${token?.slice(0, 16)}`);
