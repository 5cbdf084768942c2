import { type Config, readConfig } from "../../../src/core/config/config.ts";
import { KeyClock } from "../../../src/core/key/clock.ts";
import { NodeHost } from "../../../src/node/host.ts";
import type { Runtime } from "../../../src/node/runtime.ts";
import { serviceOf } from "../../../src/node/service.ts";
import type { Rows, Store } from "../../../src/node/store/store.ts";
import type { Service } from "../../../src/service.ts";
import { Schedule } from "../schedule.ts";
import { SimulatedFile } from "./file.ts";
import { Ledger } from "./ledger.ts";

export interface Faults {
  /** How often a commit fails. */
  readonly commit: number;
  /** How often that is the beginning of some seconds in which none works. */
  readonly outage: number;
  /** How often the process dies at a commit: before it, after it, or while its answers are sent. */
  readonly crash: number;
  /** How often a command throws. */
  readonly throws: number;
  /** How often a commit takes seconds. */
  readonly stall: number;
  /** How often the machine's clock is set back, per commit. */
  readonly setBack: number;
}

const NONE: Faults = { commit: 0, outage: 0, crash: 0, throws: 0, stall: 0, setBack: 0 };
/** Marks the faults that the world has planned. */
const PLANNED = "planned";

/** The outcome of a call of the service. `rejected`: its batch has failed. `lost`: the process has died. */
export type CallEnd<Result> = { readonly result: Result } | "rejected" | "lost";

/** One client's connection to the process. */
export interface Line {
  /** The process has died. */
  lost(): void;
}

/** One machine: its clock, its file, and the processes that run on it one after the other. */
export class World {
  readonly schedule: Schedule;
  readonly file = new SimulatedFile();
  readonly ledger: Ledger;
  readonly config: Config;
  readonly lines = new Set<Line>();
  faults: Faults;
  host: NodeHost | undefined;
  service: Service | undefined;
  /** Increases with every failed batch and every crash. */
  troubles = 0;
  violation: Error | undefined;
  /** What the machine's clock is behind true time. */
  setBackMs = 0;
  /** Counted since the last start: answers of the process may be on their way. */
  #calls = 0;
  #life = 0;
  #clock = new KeyClock(() => this.#wall);
  #outageUntil = 0;
  /** The process dies when it has sent this many times. */
  #diesAfter = Number.POSITIVE_INFINITY;
  #randoms = 0;
  #slowness = 0;
  readonly #isSlow: boolean;
  readonly #turnMs: number;
  readonly #story: string[] = [];

  constructor(seed: number, faults: Faults) {
    this.schedule = new Schedule(seed);
    this.faults = faults;
    this.ledger = new Ledger(this);
    this.config = configOf(this.schedule);
    this.#isSlow = this.schedule.happens(0.3);
    this.#turnMs = this.schedule.pick([0, 1, 5, 30]) ?? 0;
    this.#start();
  }

  get story(): readonly string[] {
    return this.#story;
  }

  tell(event: string): void {
    this.#story.push(`${String((this.schedule.now % 1e8) / 1000).padEnd(10)} ${event}`);
  }

  /** By the clock of the process; of the next one, while there is none. */
  get now(): number {
    return this.#clock.now();
  }

  /** Something is not as promised. It is noted, because the process would catch it. */
  fail(problem: string): void {
    this.violation ??= new Error(problem);
  }

  /** Runs everything up to this time. */
  async runUntil(time: number): Promise<void> {
    while (this.schedule.step(time)) {
      if (this.#calls > 0) for (let tick = 0; tick < 6; tick++) await undefined;
      if (this.violation) throw this.violation;
    }
  }

  calm(): void {
    this.faults = NONE;
    this.#outageUntil = 0;
    this.#diesAfter = Number.POSITIVE_INFINITY;
    this.tell("calm");
    if (!this.host) this.#start();
  }

  /** Asks something of the service. `done` is called once. */
  call<Result>(ask: (service: Service, host: NodeHost) => Promise<Result>, done: (end: CallEnd<Result>) => void): void {
    const { service, host } = this;
    if (!service || !host) {
      this.schedule.after(1, () => done("lost"));
      return;
    }
    let isOver = false;
    const end = (result: CallEnd<Result>) => {
      if (isOver) return;
      isOver = true;
      this.#calls -= 1;
      this.lines.delete(line);
      done(result);
    };
    const line: Line = { lost: () => end("lost") };
    this.#calls += 1;
    this.lines.add(line);
    ask(service, host).then(
      (result) => {
        if (!isOver && this.sends()) end({ result });
      },
      () => end("rejected"),
    );
  }

  /** The process sends something. False if it is dead, or dies now. */
  sends(): boolean {
    this.#diesAfter -= 1;
    if (this.#diesAfter < 0) this.#die("while it sends");
    return this.host !== undefined;
  }

  /** Whether this is still the process that runs. */
  runs(host: NodeHost | undefined): boolean {
    return host !== undefined && this.host === host;
  }

  /** What the process got as chance the last time. */
  lastRandom = "";

  randomHex(bytes: number): string {
    this.#randoms += 1;
    // Unique in its first digits: names are cut from it.
    this.lastRandom = this.#randoms
      .toString(16)
      .padStart(8, "0")
      .repeat(Math.ceil(bytes / 4))
      .slice(0, bytes * 2);
    return this.lastRandom;
  }

  get #wall(): number {
    return this.schedule.now - this.setBackMs;
  }

  #start(): void {
    if (this.host) return;
    this.tell("a process starts");
    this.#clock = new KeyClock(() => this.#wall);
    const life = this.#life;
    const host = new NodeHost({
      config: this.config,
      store: this.#storeOf(life),
      runtime: this.#runtimeOf(life),
      log: (_, event, fields) => this.#logged(event, fields),
      failed: (error) => this.fail(`the host has given up: ${error}`),
    });
    this.#plantThrows(host);
    this.host = host;
    this.service = serviceOf(host, {
      sockets: { upgrade: () => Promise.resolve({ status: "unavailable" }) },
      group: undefined,
    });
    host.load();
    this.ledger.lookAtAll();
  }

  #die(when: string): void {
    const { host } = this;
    if (!host) return;
    this.tell(`the process dies ${when}`);
    this.troubles += 1;
    this.#life += 1;
    this.#diesAfter = Number.POSITIVE_INFINITY;
    this.host = undefined;
    this.service = undefined;
    host.stop();
    for (const line of [...this.lines]) line.lost();
    this.schedule.after(this.schedule.pick([1, 100, 3_000]) ?? 1, () => this.#start());
  }

  #logged(event: string, fields: Readonly<Record<string, unknown>> | undefined): void {
    this.tell(`log: ${event} ${fields ? JSON.stringify(fields) : ""}`);
    if (event !== "batch_failed" && event !== "commit_failed") return;
    this.troubles += 1;
    if (!String(fields?.error).includes(PLANNED)) this.fail(`${event}: ${JSON.stringify(fields)}`);
  }

  #runtimeOf(life: number): Runtime {
    const { schedule } = this;
    const isAlive = () => this.#life === life;
    return {
      now: () => this.now,
      elapsed: () => {
        if (this.#isSlow) this.#slowness += schedule.between(0, 12);
        return schedule.now + this.#slowness;
      },
      whenQuiet: (callback) =>
        schedule.after(schedule.between(0, this.#turnMs), () => {
          if (isAlive()) callback();
        }),
      after: (ms, callback) => {
        let isCancelled = false;
        schedule.after(ms, () => {
          if (isAlive() && !isCancelled) callback();
        });
        return () => {
          isCancelled = true;
        };
      },
      randomHex: (bytes) => {
        // A grant takes eight.
        if (bytes === 8) this.#throws("in the engine");
        return this.randomHex(bytes);
      },
    };
  }

  #throws(where: string): void {
    if (!this.schedule.happens(this.faults.throws)) return;
    this.tell(`a command throws ${where}`);
    throw new Error(`${PLANNED} ${where}`);
  }

  #plantThrows({ keys }: NodeHost): void {
    for (const name of ["ask", "answer", "wake"] as const) {
      const original = (keys[name] as (...given: unknown[]) => unknown).bind(keys);
      (keys as unknown as Record<string, unknown>)[name] = (...given: unknown[]) => {
        this.#throws(`before ${name}`);
        const outcome = original(...given);
        this.#throws(`after ${name}`);
        return outcome;
      };
    }
  }

  #storeOf(life: number): Store {
    const { file } = this;
    return {
      isVolatile: false,
      load: () => file.load(),
      loadKey: (id) => file.loadKey(id),
      loadSession: (id) => file.loadSession(id),
      commit: (write) => {
        if (this.#life === life) this.#commit(write);
        else throw new Error(`${PLANNED}: the process is dead`);
      },
      hasRoom: () => true,
      logBytes: () => undefined,
      close() {},
    };
  }

  #commit(write: (rows: Rows) => void): void {
    const { schedule, faults } = this;
    const count = this.file.prepare(write);
    if (schedule.happens(faults.setBack)) {
      const ms = schedule.pick([500, 30_000, 600_000]) ?? 0;
      this.tell(`the clock is set back by ${ms} ms`);
      this.setBackMs += ms;
    }
    if (schedule.happens(faults.stall)) {
      const ms = schedule.between(100, 3_000);
      this.tell(`a commit takes ${ms} ms`);
      schedule.stall(ms);
    }
    if (schedule.happens(faults.commit)) {
      if (schedule.happens(faults.outage)) this.#outageUntil = schedule.now + schedule.between(100, 8_000);
      this.#failCommit();
    }
    if (schedule.now < this.#outageUntil) this.#failCommit();
    const end = schedule.happens(faults.crash) ? schedule.pick(["before", "after", "sending"] as const) : undefined;
    if (end === "before") {
      this.#die("before a commit");
      throw new Error(`${PLANNED}: the process is dead`);
    }
    const committed = count();
    this.ledger.committed(committed);
    if (end === "after") this.#die("after a commit");
    else if (end === "sending") this.#diesAfter = schedule.between(0, 3);
  }

  #failCommit(): never {
    this.tell("a commit fails");
    throw new Error(`${PLANNED}: disk full`);
  }
}

function configOf(schedule: Schedule): Config {
  const caps = schedule.happens(0.15) ? { MAX_LOCKS: "2" } : {};
  const queues = schedule.happens(0.15) ? { MAX_WAITERS: "2" } : {};
  const read = readConfig({
    GC_MAX_IDLE_S: String(schedule.pick([1, 5, 60])),
    GC_INTERVAL_S: String(schedule.pick([1, 5])),
    AUTO_RELEASE_ON_DISCONNECT: schedule.happens(0.1) ? "false" : "true",
    ...caps,
    ...queues,
  });
  if (!read.ok) throw new Error(`${read.bad[0].name} ${read.bad[0].rule}`);
  return read.config;
}
