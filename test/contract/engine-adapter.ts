/** The contract's sessions on bare engines, one per key, with rows, a clock that only moves when told, and no I/O. */
import { setImmediate } from "node:timers/promises";
import type { CommandContext, KeyEvent, NoticeAnswer } from "../../src/core/engine/index.ts";
import { type Call, StoredEngine } from "../engine/stored-engine.ts";
import type { AcquireOptions, Harness, Outcome, Refusal, ReleaseOutcome, RenewOutcome, Session } from "./contract.ts";

const DEFAULT_LEASE_S = 33;
const GC_MAX_IDLE_MS = 60_000;
const GRACE_MS = 2_500;

type Status = { readonly status: string; readonly token?: string; readonly leaseSeconds?: number };

export interface EngineHarnessOptions {
  /** Throw the engine away before calls and build it anew from its rows. */
  readonly evictsAlways?: boolean;
}

export function engineHarness({ evictsAlways = false }: EngineHarnessOptions = {}): Harness {
  const world = new VirtualService(evictsAlways);
  let names = 0;
  return {
    async session() {
      names += 1;
      return new EngineSession(`session-${names}`, world);
    },
    async sleep(seconds) {
      world.sleep(seconds * 1000);
      await setImmediate();
    },
    freshKey() {
      names += 1;
      return `key-${names}`;
    },
    async close() {},
  };
}

interface Waiting {
  readonly session: string;
  readonly settle: (outcome: Outcome) => void;
}

/** All keys, and the notices between keys and sessions, which arrive at once. */
class VirtualService {
  readonly waiting = new Map<string, Waiting>();
  readonly ended = new Set<string>();
  readonly #keys = new Map<string, StoredEngine>();
  readonly #evictsAlways: boolean;
  #now = 1_700_000_000_000;
  #salts = 0;

  constructor(evictsAlways: boolean) {
    this.#evictsAlways = evictsAlways;
  }

  get keys(): Iterable<string> {
    return this.#keys.keys();
  }

  /** Founds the key if it does not exist. */
  found(name: string, limit: number): void {
    if (!this.#keys.has(name)) this.#keys.set(name, new StoredEngine(limit, this.#now));
  }

  /** Undefined if there is no such key. */
  call(name: string, call: Call): Status | undefined {
    const key = this.#keys.get(name);
    if (!key) return undefined;
    const { outcome, events } = this.#run(key, call);
    for (const event of events) this.#tell(name, event);
    return outcome as Status | undefined;
  }

  /** Lets time pass from one wake-up to the next, as alarms would. */
  sleep(ms: number): void {
    const end = this.#now + ms;
    for (;;) {
      const [name, wake] = this.#nextWake();
      if (name === undefined || wake > end) break;
      this.#now = Math.max(this.#now, wake);
      this.call(name, { do: "tick" });
      if (this.#keys.get(name)?.engine.isPrunable(this.#moment())) this.#keys.delete(name);
    }
    this.#now = end;
  }

  /** An object that waits for the answer to a notice stays in memory. */
  #run(key: StoredEngine, call: Call) {
    if (this.#evictsAlways && call.do !== "answer") key.run({ do: "reload" }, this.#moment());
    return key.run(call, this.#moment());
  }

  #nextWake(): [name: string | undefined, at: number] {
    let soonest: [string | undefined, number] = [undefined, Number.POSITIVE_INFINITY];
    for (const [name, { engine }] of this.#keys) {
      const wake = engine.nextWake({ gcMaxIdleMs: GC_MAX_IDLE_MS, graceMs: GRACE_MS });
      if (wake < soonest[1]) soonest = [name, wake];
    }
    return soonest;
  }

  #tell(key: string, event: KeyEvent): void {
    if (event.type !== "notice") return;
    const { request } = event;
    this.call(key, { do: "answer", request, answer: this.#deliver(key, event) });
  }

  #deliver(key: string, { session, request, kind }: Extract<KeyEvent, { type: "notice" }>): NoticeAnswer {
    if (this.ended.has(session)) return "gone";
    if (kind === "promoted") return "noted";
    const waiting = this.waiting.get(request);
    if (!waiting) return "gone";
    const outcome = kind === "granted" ? this.call(key, { do: "pickUp", request }) : { status: kind };
    if (!outcome || outcome.status === "queued" || outcome.status === "unknown") return "gone";
    this.waiting.delete(request);
    waiting.settle(outcomeOf(outcome, "ok"));
    return "taken";
  }

  #moment(): CommandContext {
    const salt = () => {
      this.#salts += 1;
      return this.#salts.toString(16).padStart(16, "0");
    };
    return { now: this.#now, salt, fenceFloor: 0n, maxWaiters: 0, gcMaxIdleMs: GC_MAX_IDLE_MS };
  }
}

class EngineSession implements Session {
  readonly #id: string;
  readonly #service: VirtualService;
  #requests = 0;

  constructor(id: string, service: VirtualService) {
    this.#id = id;
    this.#service = service;
  }

  acquire(key: string, options: AcquireOptions): Promise<Outcome> {
    const { limit, waitSeconds, leaseSeconds = DEFAULT_LEASE_S, signal } = options;
    const { session, request } = this.#newRequest();
    const command = { session, request, limit, leaseSeconds, waitMs: waitSeconds * 1000, mayWait: true };
    this.#service.found(key, limit);
    const outcome = this.#outcome(request, () => this.#service.call(key, { do: "acquire", command }));
    signal?.addEventListener("abort", () => this.#cancel(key, request));
    return outcome;
  }

  async enqueue(key: string, { limit, leaseSeconds = DEFAULT_LEASE_S }: { limit: number; leaseSeconds?: number }) {
    this.#service.found(key, limit);
    const command = { ...this.#newRequest(), limit, leaseSeconds };
    return outcomeOf(this.#service.call(key, { do: "enqueue", command }) ?? { status: "error" }, "acquired");
  }

  wait(key: string, { waitSeconds }: { waitSeconds: number }): Promise<Outcome> {
    const { session, request } = this.#newRequest();
    const command = { session, request, waitMs: waitSeconds * 1000, mayWait: true };
    return this.#outcome(request, () => this.#service.call(key, { do: "wait", command }) ?? { status: "not_enqueued" });
  }

  async release(key: string, token: string): Promise<ReleaseOutcome> {
    const outcome = this.#service.call(key, { do: "release", token, session: this.#id });
    return { status: outcome?.status === "released" ? "ok" : "error" };
  }

  async renew(key: string, token: string, leaseSeconds = DEFAULT_LEASE_S): Promise<RenewOutcome> {
    const outcome = this.#service.call(key, { do: "renew", token, leaseSeconds });
    if (outcome?.status !== "renewed") return { status: "error" };
    return { status: "ok", lease: outcome.leaseSeconds as number };
  }

  /** Calls reach the key before they return. */
  async arrived(): Promise<void> {}

  async end(): Promise<void> {
    this.#service.ended.add(this.#id);
    for (const [request, { session }] of this.#service.waiting) {
      if (session === this.#id) this.#service.waiting.delete(request);
    }
    for (const key of [...this.#service.keys]) {
      this.#service.call(key, { do: "leave", session: this.#id, keepsReported: false });
    }
  }

  #newRequest(): { session: string; request: string } {
    this.#requests += 1;
    return { session: this.#id, request: `${this.#id}-${this.#requests}` };
  }

  /** The answer to a request, now or by a notice. */
  #outcome(request: string, ask: () => Status | undefined): Promise<Outcome> {
    return new Promise((settle) => {
      this.#service.waiting.set(request, { session: this.#id, settle });
      const outcome = ask() ?? { status: "error" };
      if (outcome.status === "queued") return;
      this.#service.waiting.delete(request);
      settle(outcomeOf(outcome, "ok"));
    });
  }

  #cancel(key: string, request: string): void {
    const waiting = this.#service.waiting.get(request);
    if (!waiting) return;
    this.#service.waiting.delete(request);
    this.#service.call(key, { do: "cancel", request });
    waiting.settle({ status: "cancelled" });
  }
}

function outcomeOf({ status, token, leaseSeconds }: Status, word: "ok" | "acquired"): Outcome {
  if (status === "granted") return { status: word, token: token as string, lease: leaseSeconds as number };
  if (status === "queued" || status === "timeout") return { status };
  return { status: `error_${status}` as Refusal };
}
