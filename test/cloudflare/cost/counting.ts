/**
 * Counts what the platform would charge for, in the real runtime: every call of an object, every alarm and message, the
 * rows that SQLite says it read and wrote, and the time in which timers keep objects awake.
 *
 * Time is virtual. `Date`, the timers of the service and its alarms move only with `pass`, which runs whatever is due on the
 * way, in order. The clock starts at the same moment in every run: chores that have their own minute of the hour, such as a
 * directory's probe of its sessions, would otherwise be counted or not depending on when the tests are run. That moment is
 * far in the future, so that the runtime fires no alarm by itself. Sessions have random shards: it is also such that each shard
 * probes equally often in a life.
 */

import { runDurableObjectAlarm, runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { AsyncLocalStorage } from "node:async_hooks";
import { vi } from "vitest";
import { type Counts, NO_COUNTS } from "../../../bench/cost/counts.ts";
import worker, * as service from "../../../src/cloudflare/index.ts";
import { LockKey } from "../../../src/cloudflare/lock-key/index.ts";
import { Timers } from "./timers.ts";

const STARTS_AT = Date.UTC(2099, 0, 1, 0, 2);
const KINDS = {
  KEY: service.KeyObject,
  LOCK_KEY: LockKey,
  SESSION: service.SessionObject,
  HTTP_SESSION: service.HttpSessionObject,
  DIRECTORY: service.DirectoryObject,
  METRICS: service.MetricsObject,
  RATE_LIMIT: service.RateLimitObject,
  RELAY: service.RelayObject,
} as const;
type Kind = keyof typeof KINDS;

/** What kind of object this is. Methods tell only that of the class that has them. */
const kindOf = (object: object) => Object.entries(KINDS).find(([, type]) => type === object.constructor)?.[0] as Kind;

/** One event of an object, or one request to the Worker. */
export interface Running {
  /** Undefined for the Worker, whose waiting is not charged. */
  readonly object: string | undefined;
  /** It is the other end of a call. */
  readonly isCalled: boolean;
  timers: number;
  /** Calls that it has made and that have not returned. */
  calls: number;
}

type Method = (this: unknown, ...args: unknown[]) => unknown;
type Methods = Record<string, Method>;
interface HasContext {
  readonly ctx: DurableObjectState;
}

/** Nothing must happen for so many looks in a row before the service counts as quiet. */
const QUIET_LOOKS = 4;
const LOOK_EVERY_MS = 4;
/** How long a pause is that takes its time on the machine's clock, unless the caller of `begin` wants another. */
const SHORT_MS = 100;
/** Events may wait for a timer that another one has set: then nothing happens either, for longer. */
const LOOKS_WHILE_OTHERS_WAIT = 12;
/** A timer that is due ends within a look or two, unless its object is gone. */
const LOOKS_OF_THE_DEAD = 50;
const MAX_LOOKS = 2_000;

/** Events that do not come from a stub. */
const NOT_CALLED: ReadonlySet<string> = new Set(["alarm", "webSocketMessage", "webSocketClose", "webSocketError"]);

const isThenable = (value: unknown): value is PromiseLike<unknown> =>
  typeof (value as Partial<PromiseLike<unknown>> | null)?.then === "function";

export class Counting {
  readonly #running = new AsyncLocalStorage<Running>();
  readonly #inFlight = new Set<Running>();
  readonly #timers: Timers;
  readonly #cursors: { readonly rowsRead: number; readonly rowsWritten: number }[] = [];
  readonly #alarms = new Map<DurableObjectStorage, number>();
  readonly #owners = new Map<DurableObjectStorage, { readonly kind: Kind; readonly id: string }>();
  readonly #undo: (() => void)[] = [];
  readonly #get = env.KEY.get;
  readonly #counts: { -readonly [Name in keyof Counts]: number } = { ...NO_COUNTS };
  #changes = 0;
  /** Calls that have not returned. */
  #calls = 0;
  /** An alarm is about to run. The platform drops an alarm that has fired; the test runner deletes it. */
  #isFiring = false;

  /** How long the directory and the metrics take to answer. An object that waits for them is awake. */
  readonly #shardMs: number;

  private constructor(shortMs: number, shardMs: number) {
    this.#timers = new Timers(this.#running, () => this.#changed(), shortMs);
    this.#shardMs = shardMs;
  }

  /** Stops the clock and counts from here on. */
  static async begin({ shortMs = SHORT_MS, shardMs = 0 } = {}): Promise<Counting> {
    const counting = new Counting(shortMs, shardMs);
    vi.useFakeTimers({ toFake: ["Date"], now: STARTS_AT });
    counting.#repeatChance();
    counting.#watchCalls();
    for (const { prototype } of Object.values(KINDS)) counting.#watchEvents(prototype);
    const sample = counting.#stub("KEY", env.KEY.idFromName("a sample").toString());
    await runInDurableObject(sample, (_, { storage }) => counting.#watchStorage(storage));
    counting.#undo.push(counting.#timers.install());
    return counting;
  }

  end(): void {
    for (const undo of this.#undo.reverse()) undo();
    vi.useRealTimers();
  }

  /** Everything counted so far. */
  read(): Counts {
    const rows = (name: "rowsRead" | "rowsWritten") => this.#cursors.reduce((sum, cursor) => sum + cursor[name], 0);
    const { rowsRead, rowsWritten, heldMs } = this.#counts;
    return {
      ...this.#counts,
      rowsRead: rowsRead + rows("rowsRead"),
      rowsWritten: rowsWritten + rows("rowsWritten"),
      heldMs: heldMs + this.#timers.heldMs,
    };
  }

  /** Lets this much time pass. What is under way ends first; timers and alarms that come due run at their time, one after the other. */
  async pass(ms: number): Promise<void> {
    const until = Date.now() + ms;
    await this.quiet();
    while (await this.next(until)) {}
    vi.setSystemTime(until);
  }

  /** Lets time pass until the next timer or alarm is due, and runs it. False if none is due by then. */
  async next(until = Number.POSITIVE_INFINITY): Promise<boolean> {
    const [storage, alarmAt = Number.POSITIVE_INFINITY] = [...this.#alarms].sort(([, a], [, b]) => a - b)[0] ?? [];
    const at = Math.min(alarmAt, this.#timers.nextAt);
    if (at > until || at === Number.POSITIVE_INFINITY) return false;
    if (at > Date.now()) vi.setSystemTime(at);
    if (storage && alarmAt <= this.#timers.nextAt) await this.#fire(storage);
    await this.quiet();
    return true;
  }

  /** Something has been sent that no stub carries (1), or has arrived (-1). */
  onItsWay(by: 1 | -1): void {
    this.#calls += by;
    this.#changed();
  }

  /** Runs a request to the Worker: its waiting is not charged. */
  inWorker(work: () => unknown): unknown {
    return this.#run(undefined, work);
  }

  /** Ends a client's connection. Its close is on its way for a while before any object runs for it. */
  async close(client: { close(): void }): Promise<void> {
    const { closes } = this.#counts;
    client.close();
    while (this.#counts.closes === closes) await this.#timers.realWait(LOOK_EVERY_MS);
  }

  /** Resolves when all that runs has ended or waits for time to pass. */
  async quiet(): Promise<void> {
    let [looks, seen] = [0, -1];
    for (let look = 0; look < MAX_LOOKS; look++) {
      await this.#timers.realWait(LOOK_EVERY_MS);
      looks = seen === this.#changes ? looks + 1 : 0;
      seen = this.#changes;
      const isAsleep = this.#isAsleep;
      // An object that is called for the first time takes its time to start.
      const isSettled = isAsleep || (!this.#isCallOnItsWay && this.#isWaiting);
      if (looks >= (isAsleep ? QUIET_LOOKS : LOOKS_WHILE_OTHERS_WAIT) && isSettled && !this.#timers.isDue) return;
      if (looks === LOOKS_OF_THE_DEAD) this.#timers.dropDead();
    }
    throw new Error(`the service is still busy: ${[...this.#inFlight].map(({ object }) => object).join(", ")}`);
  }

  /** All that runs waits for a timer, or for others that do. */
  get #isAsleep(): boolean {
    return !this.#isCallOnItsWay && [...this.#inFlight].every(({ timers, calls }) => timers + calls > 0);
  }

  /** Something is to happen later, or only requests to the Worker wait, for what a socket will bring them. */
  get #isWaiting(): boolean {
    const isObjectAwake = [...this.#inFlight].some(({ object, timers, calls }) => object && timers + calls === 0);
    return this.#timers.nextAt < Number.POSITIVE_INFINITY || !isObjectAwake;
  }

  /** A call on its way, there or back, is nowhere running. */
  get #isCallOnItsWay(): boolean {
    return this.#calls > [...this.#inFlight].filter(({ isCalled }) => isCalled).length;
  }

  #underWay(result: unknown): unknown {
    if (!isThenable(result)) return result;
    const caller = this.#running.getStore();
    const note = (by: number) => {
      this.#calls += by;
      if (caller) caller.calls += by;
      this.#changed();
    };
    note(1);
    const returned = () => note(-1);
    result.then(returned, returned);
    return result;
  }

  async #fire(storage: DurableObjectStorage): Promise<void> {
    const owner = this.#owners.get(storage);
    this.#alarms.delete(storage);
    if (!owner) throw new Error("an alarm of an unknown object");
    this.#isFiring = true;
    const fired = runDurableObjectAlarm(this.#stub(owner.kind, owner.id)).finally(() => {
      this.#isFiring = false;
    });
    // Only until it runs: it may wait for time to pass.
    while (this.#isFiring) await Promise.race([fired, this.#timers.realWait(LOOK_EVERY_MS)]);
  }

  #stub(kind: Kind, id: string): DurableObjectStub<undefined> {
    return Reflect.apply(this.#get, env[kind], [env[kind].idFromString(id)]);
  }

  #changed(): void {
    this.#changes += 1;
  }

  #count(name: keyof Counts, by = 1): void {
    this.#counts[name] += by;
    this.#changed();
  }

  /** Replaces a method until the end. */
  #patch(object: object, name: string, wrap: (original: Method) => Method): void {
    const methods = object as Methods;
    const original = methods[name];
    if (!original) throw new Error(`there is no ${name}`);
    const isOwn = Object.hasOwn(object, name);
    methods[name] = wrap(original);
    this.#undo.push(() => {
      if (isOwn) methods[name] = original;
      else delete methods[name];
    });
  }

  /** The same random numbers in every run: they decide which of the metrics' collectors a session reports to. */
  #repeatChance(): void {
    let state = 1;
    const next = () => {
      state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
      return state / 2 ** 32;
    };
    this.#patch(Math, "random", () => next);
    this.#patch(crypto, "getRandomValues", () => (array) => {
      const { buffer, byteOffset, byteLength } = array as Uint8Array;
      new Uint8Array(buffer, byteOffset, byteLength).set(Array.from({ length: byteLength }, () => next() * 256));
      return array;
    });
  }

  /** Every method of a stub that is called is one request. */
  #watchCalls(): void {
    const counting = this;
    const counted = (stub: object) =>
      new Proxy(stub, {
        get(target, name) {
          if (name === "then") return undefined;
          const value: unknown = Reflect.get(target, name);
          if (typeof value !== "function") return value;
          return (...args: unknown[]) => {
            counting.#count("calls");
            const isFar = /^shard-/.test((target as DurableObjectStub).name ?? "");
            // Not in time, which waits for calls: two at a time are charged as if one came after the other.
            if (isFar && counting.#running.getStore()?.object) counting.#count("heldMs", counting.#shardMs);
            return counting.#underWay(Reflect.apply(value, target, args));
          };
        },
      });
    for (const name of ["get", "getByName"]) {
      this.#patch(Object.getPrototypeOf(env.KEY), name, (original) => {
        return function (...args) {
          return counted(original.apply(this, args) as object);
        };
      });
    }
    this.#patch(worker, "fetch", (original) => {
      return function (...args) {
        counting.#count("workerRequests");
        return counting.#run(undefined, () => original.apply(this, args));
      };
    });
  }

  #watchEvents(prototype: object): void {
    const counting = this;
    const charged: Readonly<Record<string, keyof Counts>> = {
      alarm: "alarms",
      webSocketMessage: "messages",
      webSocketClose: "closes",
    };
    for (const [name, { value }] of Object.entries(Object.getOwnPropertyDescriptors(prototype))) {
      if (name === "constructor" || typeof value !== "function") continue;
      this.#patch(prototype, name, (original) => {
        return function (this: unknown, ...args) {
          const kind = kindOf(this as object);
          const { storage, id } = (this as HasContext).ctx;
          const object = `${kind} ${id.name ?? id}`;
          counting.#own(storage, kind, id.toString());
          if (name === "alarm") counting.#isFiring = false;
          if (charged[name]) counting.#count(charged[name]);
          // An object that calls itself is already running.
          if (counting.#running.getStore()?.object === object) return original.apply(this, args);
          return counting.#run(object, () => original.apply(this, args), !NOT_CALLED.has(name));
        };
      });
    }
  }

  /** Remembers whose storage this is. An object that has been evicted comes back with another one, and the same alarm. */
  #own(storage: DurableObjectStorage, kind: Kind, id: string): void {
    if (this.#owners.has(storage)) return;
    for (const [old, owner] of this.#owners) {
      if (owner.kind !== kind || owner.id !== id) continue;
      const alarm = this.#alarms.get(old);
      if (alarm !== undefined && !this.#alarms.has(storage)) this.#alarms.set(storage, alarm);
      this.#alarms.delete(old);
      this.#owners.delete(old);
    }
    this.#owners.set(storage, { kind, id });
  }

  #run(object: string | undefined, work: () => unknown, isCalled = false): unknown {
    const running: Running = { object, isCalled, timers: 0, calls: 0 };
    const ended = () => {
      this.#inFlight.delete(running);
      this.#changed();
    };
    this.#inFlight.add(running);
    this.#changed();
    try {
      const result = this.#running.run(running, work);
      if (result instanceof Promise) result.then(ended, ended);
      else ended();
      return result;
    } catch (error) {
      ended();
      throw error;
    }
  }

  /** Patches what all storages share. The sample is one of them. */
  #watchStorage(storage: DurableObjectStorage): void {
    const counting = this;
    const costs = (object: object, name: string, counter: "rowsRead" | "rowsWritten") =>
      this.#patch(Object.getPrototypeOf(object), name, (original) => {
        return function (...args) {
          counting.#count(counter);
          return original.apply(this, args);
        };
      });
    for (const name of ["put", "delete"]) costs(storage.kv, name, "rowsWritten");
    costs(storage.kv, "get", "rowsRead");
    this.#patch(Object.getPrototypeOf(storage.sql), "exec", (original) => {
      return function (...args) {
        const cursor = original.apply(this, args) as SqlStorageCursor<Record<string, SqlStorageValue>>;
        counting.#cursors.push(cursor);
        counting.#changed();
        return cursor;
      };
    });
    const alarms = (name: string, note: (storage: DurableObjectStorage, time: unknown) => void) =>
      this.#patch(Object.getPrototypeOf(storage), name, (original) => {
        return function (this: unknown, ...args) {
          if (!counting.#isFiring) counting.#count("rowsWritten");
          note(this as DurableObjectStorage, args[0]);
          return original.apply(this, args);
        };
      });
    alarms("setAlarm", (each, time) => this.#alarms.set(each, Number(time)));
    alarms("deleteAlarm", (each) => this.#alarms.delete(each));
    // The platform does not say what it charges for this; its rows are dropped together.
    alarms("deleteAll", (each) => this.#alarms.delete(each));
  }
}
