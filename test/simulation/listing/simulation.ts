/**
 * One key of the Cloudflare host, its entry in the directory, and hours of virtual time. Messages to the directory may be
 * slow, lost, or carried out twice, up to hours later; the key's object may lose its memory at any moment; clients use the
 * key when it is about to delete itself. `KeyCommands` and `KeyListing` are the host's own.
 *
 * In every third world there is a cap, and other keys come and go under it: then the key asks for a place, and gives it up
 * when it is idle and another one needs it. A key in use always has one.
 */
import { KeyCommands } from "../../../src/cloudflare/key/key-commands.ts";
import { type KeyDirectory, type KeyEntry, KeyListing } from "../../../src/cloudflare/key/key-listing.ts";
import type { CommandContext } from "../../../src/core/engine/index.ts";
import { Schedule } from "../schedule.ts";
import type { Story } from "../simulation.ts";
import { Disk, DiskRows } from "./stored-key.ts";

const KEY = "key";
const HOUR_MS = 3_600_000;
const ACTIONS = 60;
/** Keys that there may be, if there is a cap. */
const CAP = 2;
/** Beyond the longest lease, the time for which rows are kept, and the retries after that. */
const GONE_WITHIN_MS = 12 * HOUR_MS;
/** Beyond the pause after a call to the directory that failed. */
const LISTED_WITHIN_MS = 120_000;
/** A key looks after itself once an hour; each use, crash and failed call may add one or two. */
const ALARMS_PER_ACTION = 6;

/** When the platform calls an alarm again that was cut off. */
const ALARM_AGAIN_MS = 2_000;
const UNREACHABLE = "unreachable";

export async function simulateListing(seed: number): Promise<Story> {
  const world = new World(seed);
  try {
    await world.run();
    return { seed, grants: world.grants };
  } catch (error) {
    const message = error instanceof Error ? (error.stack ?? error.message) : String(error);
    return { seed, grants: world.grants, problem: { message, story: world.story } };
  }
}

/** The part of a directory's shard that concerns the key: the fence of its entry, and the places of other keys. */
class Entry {
  fence: bigint | undefined;
  others = 0;

  get isFull(): boolean {
    return this.others + (this.fence === undefined ? 0 : 1) >= CAP;
  }

  admit(fence: bigint): boolean {
    if (this.fence === undefined && this.isFull) return false;
    const seen = this.fence ?? 0n;
    this.list(fence > seen ? fence : seen + 1n);
    return true;
  }

  list(fence: bigint): void {
    if (this.fence === undefined || this.fence < fence) this.fence = fence;
  }

  unlist(fence: bigint): void {
    if (this.fence !== undefined && this.fence <= fence) this.fence = undefined;
  }
}

interface Hold {
  readonly token: string;
  /** By the key's clock. */
  readonly until: number;
}

class World implements KeyDirectory {
  readonly schedule: Schedule;
  readonly story: string[] = [];
  grants = 0;
  readonly #faults: { readonly call: number; readonly crash: number };
  readonly #isCapped: boolean;
  readonly #disk = new Disk();
  readonly #entry = new Entry();
  /** The memory of the key's object; undefined while it has none. */
  #object: { readonly commands: KeyCommands; readonly listing: KeyListing } | undefined;
  #isCalm = false;
  #clockIsBackMs = 0;
  #lastFence = "";
  #hold: Hold | undefined;
  /** The latest time that the key's clock has shown. */
  #latest = 0;
  #requests = 0;
  #alarms = 0;
  /** The alarm that waits for the directory's answer to somebody else: it is called again if the object is lost. */
  #firing: number | undefined;
  /** The directory has refused to admit the key since it was last granted. */
  #isRefused = false;
  #problem: unknown;

  constructor(seed: number) {
    this.schedule = new Schedule(seed);
    this.#isCapped = Math.floor(seed / 4) % 3 === 0;
    const level = [0, 0.02, 0.1, 0.3][seed % 4] ?? 0;
    this.#faults = { call: level, crash: level };
  }

  async run(): Promise<void> {
    const { schedule } = this;
    for (let action = 0; action < ACTIONS; action++) {
      await this.#until(schedule.now + this.#pause());
      this.#act();
    }
    this.#isCalm = true;
    this.#tell("calm");
    await this.#until(schedule.now + 3 * HOUR_MS);
    this.#entry.others = 0;
    this.#start(this.#acquire(3 * 3_600));
    await this.#until(schedule.now + LISTED_WITHIN_MS);
    if (!this.#hold) throw new Error("nobody is granted a key that is free");
    if (this.#entry.fence === undefined) throw new Error("a key in use is not listed");
    if (schedule.happens(0.5)) this.#start(this.#release());
    await this.#until(schedule.now + GONE_WITHIN_MS);
    if (this.#disk.rows) throw new Error("the rows of a key that nobody uses stay");
    if (this.#disk.alarm !== undefined) throw new Error("a key that is gone has an alarm");
    this.#start(this.#look());
    await this.#until(schedule.now + 1_000);
    if (this.#entry.fence !== undefined) throw new Error("an entry stays although somebody looked");
  }

  listKey({ fence }: KeyEntry): Promise<void> {
    return this.#message("list", () => this.#entry.list(fence));
  }

  unlistKey({ fence }: KeyEntry): Promise<void> {
    return this.#message("unlist", () => this.#entry.unlist(fence));
  }

  admitKey({ fence }: KeyEntry): Promise<{ readonly isAdmitted: boolean }> {
    if (!this.#isCapped) throw new Error("there is no cap");
    return this.#message("admit", () => {
      const isAdmitted = this.#entry.admit(fence);
      if (!isAdmitted) this.#isRefused = true;
      return { isAdmitted };
    });
  }

  #tell(event: string): void {
    this.story.push(`${String((this.schedule.now % 1e9) / 1000).padEnd(12)} ${event}`);
  }

  /** The key's clock; it is set back by less than an hour, all in all. */
  get #now(): number {
    return this.schedule.now - this.#clockIsBackMs;
  }

  /** Most pauses end around the time at which the key may delete itself. */
  #pause(): number {
    const { schedule } = this;
    if (schedule.happens(0.4)) return schedule.between(1, 5_000);
    if (schedule.happens(0.3)) return schedule.between(1, 3 * HOUR_MS);
    const due = (this.#disk.alarm ?? this.#now + HOUR_MS) - this.#now;
    return Math.max(1, due + schedule.between(-40, 400));
  }

  #act(): void {
    const { schedule } = this;
    if (this.#isCapped && schedule.happens(0.3)) this.#start(this.#useOther());
    const chance = schedule.chance();
    if (chance < 0.45) this.#start(this.#acquire(schedule.pick([1, 33, 600, 7_200]) ?? 33));
    else if (chance < 0.75) this.#start(this.#release());
    else if (chance < 0.85) this.#start(this.#look());
    else if (chance < 0.95) this.#crash();
    else if (this.#clockIsBackMs < HOUR_MS / 2) {
      this.#clockIsBackMs += schedule.between(1, HOUR_MS / 4);
      this.#tell("the clock is set back");
      // A running object continues from the last time it saw.
      this.#crash();
    }
  }

  /** Begins something that may have to wait for the directory. */
  #start(work: Promise<void>): void {
    work.catch((error) => {
      this.#problem ??= error;
    });
  }

  /** Another key comes, for which the idle ones make room if need be, or goes. */
  async #useOther(): Promise<void> {
    const { schedule } = this;
    const entry = this.#entry;
    if (entry.others > 0 && schedule.happens(0.5)) entry.others -= 1;
    else if (!entry.isFull) entry.others += 1;
    else
      await this.#look(() => {
        if (!entry.isFull) entry.others += 1;
      });
  }

  /** Runs what is planned. Between two events, everything that follows from the first has happened. */
  async #until(time: number): Promise<void> {
    await settled();
    while (this.schedule.step(time)) {
      await settled();
      if (this.#problem) throw this.#problem;
      const isInUse = this.#hold && this.#hold.until > Math.max(this.#latest, this.#now);
      if (this.#isCapped && isInUse && this.#entry.fence === undefined)
        throw new Error("a key in use has no place under the cap");
      if (this.#alarms > ACTIONS * ALARMS_PER_ACTION) throw new Error(`the alarm fired ${this.#alarms} times`);
    }
  }

  async #acquire(leaseSeconds: number): Promise<void> {
    const { commands } = this.#awake();
    this.#requests += 1;
    const request = `request-${this.#requests}`;
    const command = { limit: 1, leaseSeconds, waitMs: 0, mayWait: false, session: "s", request };
    const outcome = await commands.carryOut({ type: "acquire", command }).catch((error: Error) => error);
    if (outcome instanceof Error) {
      if (outcome.message !== UNREACHABLE) throw outcome;
      return this.#tell("acquire: the directory is out of reach");
    }
    const hold = this.#hold;
    this.#tell(`acquire for ${leaseSeconds} s: ${outcome.status}`);
    if (outcome.status === "granted") {
      // A lease that was over stays over when the clock is set back, if anything has noticed.
      if (hold && hold.until > this.#latest) throw new Error(`${outcome.token} is granted while ${hold.token} is held`);
      const fence = outcome.token.slice(0, 16);
      if (fence <= this.#lastFence) throw new Error(`the fence falls from ${this.#lastFence} to ${fence}`);
      this.#lastFence = fence;
      this.grants += 1;
      this.#isRefused = false;
      this.#hold = { token: outcome.token, until: this.#now + leaseSeconds * 1000 };
    } else if (outcome.status === "max_locks" && this.#isRefused) return;
    else if (!hold || hold.until <= this.#now) throw new Error(`${outcome.status}, although nobody holds the key`);
  }

  async #release(): Promise<void> {
    const hold = this.#hold;
    if (!hold) return;
    const isHeldNow = () => this.#hold === hold && hold.until > Math.max(this.#latest, this.#now);
    const wasHeld = isHeldNow();
    const { status } = await this.#awake().commands.use<{ readonly status: string }>(
      { status: "not_held" },
      (engine, context) => engine.release(hold.token, "s", context),
    );
    this.#tell(`release: ${status}`);
    if (wasHeld && isHeldNow() && status !== "released") throw new Error(`the holder of ${hold.token} hears ${status}`);
    if (this.#hold === hold) this.#hold = undefined;
  }

  /** The directory looks at the listed key. The entry of one that is idle, or that has nothing stored, goes; then `after` runs. */
  async #look(after = () => {}): Promise<void> {
    const seen = this.#entry.fence;
    if (seen === undefined) return;
    const { commands, listing } = this.#awake();
    const fence = await commands.look<bigint | "used" | "absent">(
      listing.isPending ? "used" : "absent",
      (engine, context) => {
        engine.tick(context);
        if (!engine.isPrunable(context) || listing.isPending || engine.hasNews) return "used";
        listing.yield();
        return engine.lastFence;
      },
    );
    this.#tell(`a report looks: ${fence}`);
    // The answer takes its time.
    if (fence !== "used")
      this.schedule.after(this.schedule.between(1, 300), () => {
        this.#entry.unlist(fence === "absent" ? seen : fence);
        after();
      });
  }

  #awake() {
    if (this.#object) return this.#object;
    const store = new DiskRows(this.#disk);
    const isCurrent = () => this.#object?.commands === commands;
    const wakeBy = (time: number) => {
      if (!isCurrent() || (this.#disk.alarm !== undefined && this.#disk.alarm <= time)) return;
      this.#setAlarm(time);
    };
    const listing: KeyListing = new KeyListing({
      name: KEY,
      directory: () => this,
      waitUntil: () => {},
      count: () => {},
      failed: () => {},
      now: () => this.#now,
      wakeBy,
      record: (isListed, when) => {
        if (isCurrent()) store.record(isListed, when);
      },
    });
    const commands: KeyCommands = new KeyCommands({
      name: KEY,
      store,
      listing,
      isCapped: this.#isCapped,
      context: () => this.#context(),
      wakeBy,
      stored: () => {},
      forget: () => {},
      restart: (why) => {
        throw new Error(why);
      },
    });
    this.#object = { commands, listing };
    commands.load();
    return this.#object;
  }

  #crash(): void {
    if (!this.#object) return;
    this.#object = undefined;
    this.#tell("the object is lost");
    if (this.#firing !== undefined && this.#disk.alarm === this.#firing) this.#setAlarm(this.#now + ALARM_AGAIN_MS);
    this.#firing = undefined;
  }

  #setAlarm(time: number): void {
    this.#disk.alarm = time;
    const { schedule } = this;
    schedule.at(time + this.#clockIsBackMs, () => void this.#fire(time));
  }

  /** As the key object's `alarm` does. The platform calls it again if it was cut off. */
  async #fire(time: number): Promise<void> {
    if (this.#disk.alarm !== time) return;
    this.#alarms += 1;
    if (!this.#isCalm && this.schedule.happens(this.#faults.crash)) this.#crash();
    const { commands } = this.#awake();
    this.#firing = time;
    await commands.use(undefined, (engine, context) => engine.tick(context));
    this.#firing = undefined;
    if (this.#disk.alarm === time) this.#disk.alarm = undefined;
    const isPruned = await commands.prune();
    if (isPruned) this.#tell("deletes itself");
    if (this.#object?.commands !== commands && this.#disk.rows && this.#disk.alarm === undefined)
      this.#setAlarm(this.#now + ALARM_AGAIN_MS);
  }

  #message<Answer>(what: string, carryOut: () => Answer): Promise<Answer> {
    const { schedule } = this;
    const fails = () => !this.#isCalm && schedule.happens(this.#faults.call);
    const delay = () => (schedule.happens(0.1) ? schedule.between(100, 60_000) : schedule.between(1, 300));
    const [isLost, isUnanswered, isDoubled] = [fails(), fails(), fails()];
    const object = this.#object;
    return new Promise((resolve, reject) => {
      schedule.after(delay(), () => {
        this.#tell(`${what}${isLost ? " (lost)" : isUnanswered ? " (unanswered)" : ""}`);
        const answer = isLost ? undefined : { is: carryOut() };
        if (!isLost && isDoubled) schedule.after(schedule.between(1, 4 * HOUR_MS), carryOut);
        // Answers to an object that is lost go nowhere.
        if (this.#object !== object) return;
        if (!answer || isUnanswered) reject(new Error(UNREACHABLE));
        else schedule.after(delay(), () => this.#object === object && resolve(answer.is));
      });
    });
  }

  #context(): CommandContext {
    const salt = () => this.schedule.hex(16);
    this.#latest = Math.max(this.#latest, this.#now);
    return { now: this.#now, salt, fenceFloor: 0n, maxWaiters: 0, gcMaxIdleMs: 60_000 };
  }
}

/** Resolves when all that can go on without an event has gone on. */
const settled = () => new Promise<void>((resolve) => setImmediate(resolve));
