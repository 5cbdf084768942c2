/**
 * The whole life of a key, over and over, with messages between it and the directory that are lost, answered in vain or
 * delivered again much later, with either of them losing its memory, and with the key's file lost. Only the last of
 * these may make the key answer that its rows are gone. Seeded: a failure names its seed, and what happened.
 */
import { evictDurableObject, reset, runDurableObjectAlarm, runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { directoryOfKey } from "../../../src/cloudflare/calls/directories.ts";
import { DirectoryObject, type Founding } from "../../../src/cloudflare/directory/directory-object.ts";
import { KeyObject } from "../../../src/cloudflare/key/key-object.ts";
import type { AcquireOutcome } from "../../../src/core/engine/index.ts";
import { Schedule } from "../../simulation/schedule.ts";
import { allowLog } from "../../support/expected-logs.ts";
import { pass, stopClock } from "../clock.ts";
import { command, grantedToken, keyStub, loseRows, storedIn } from "../support.ts";

const SEEDS = 10;
const STEPS = 40;
const GONE = "rows are gone";

beforeEach(() => {
  stopClock();
});
afterEach(async () => {
  vi.restoreAllMocks();
  vi.useRealTimers();
  await reset();
});

interface ToldGrant {
  readonly token: string;
  readonly endsAt: number;
}

type Method = (this: unknown, ...args: never[]) => unknown;

type Deed = readonly [weight: number, name: string, deed: () => Promise<unknown>];

/** One key, what its clients were told, and what happens to it. */
class Story {
  readonly name: string;
  readonly told: string[] = [];
  readonly #schedule: Schedule;
  /** Calls that were lost and come again. */
  readonly #late: (() => Promise<unknown>)[] = [];
  #isFaulty = true;
  #held: ToldGrant[] = [];
  #lastFence = "";
  #mayHaveLostRows = false;
  #requests = 0;

  constructor(seed: number) {
    this.name = `key-of-story-${seed}`;
    allowLog("key_unreachable", { key: this.name, error: /planted/ });
    this.#schedule = new Schedule(seed);
    this.#disturb(DirectoryObject.prototype, "joinKey", (name, founding, askedAt) =>
      directoryOfKey(env, name as string).joinKey(name as string, founding as Founding, askedAt as number),
    );
    this.#disturb(KeyObject.prototype, "retire", (listedAt, question) =>
      keyStub(this.name).retire(listedAt as number, question as string),
    );
    this.#disturb(KeyObject.prototype, "forgetRetired", (question) => keyStub(this.name).forgetRetired(`${question}`));
  }

  async run(): Promise<void> {
    const deeds: [Deed, ...Deed[]] = [
      [6, "acquire", () => this.#acquire()],
      [5, "release", () => this.#release()],
      [2, "describe", () => this.#attempt(() => keyStub(this.name).describe())],
      [4, "the key loses its memory", () => this.#attempt(() => evictDurableObject(keyStub(this.name)))],
      [2, "the directory does", () => this.#attempt(() => evictDurableObject(directoryOfKey(env, this.name)))],
      [6, "visit", () => this.#visit()],
      [6, "visit after a while", () => this.#visitLater()],
      [3, "visit and acquire", () => Promise.all([this.#visit(), this.#acquire()])],
      [2, "the key's alarm", () => this.#attempt(() => runDurableObjectAlarm(keyStub(this.name)))],
      [3, "a while", async () => pass(Math.floor(this.#schedule.chance() * 100_000))],
      [2, "something late", () => this.#attempt(async () => this.#late.shift()?.())],
      [3, "the file is lost", () => this.#loseFile()],
      [3, "given up", () => this.#giveUp()],
    ];
    const deck = deeds.flatMap((deed) => Array.from({ length: deed[0] }, () => deed));
    for (let step = 0; step < STEPS; step++) {
      const drawn = this.#schedule.between(0, deck.length - 1);
      const [, name, deed] = deck[drawn] ?? deeds[0];
      this.told.push(name);
      await deed();
      pass(1);
    }
  }

  /** Once nothing goes wrong any more, the key can be had, and then is forgotten without a trace. */
  async end(): Promise<void> {
    this.#isFaulty = false;
    pass(1_000_000);
    await this.#giveUp();
    const token = grantedToken(await keyStub(this.name).acquire(command()));
    await keyStub(this.name).release(token, "");
    for (let hour = 0; hour < 3; hour++) {
      pass(3_700_000);
      await this.#visit();
    }
    expect(await storedIn(keyStub(this.name))).toEqual([]);
    expect(await directoryOfKey(env, this.name).lists(this.name)).toBe(false);
  }

  async #acquire(): Promise<void> {
    const leaseSeconds = 1 + Math.floor(this.#schedule.chance() * 200);
    this.#requests += 1;
    const asked = command({ leaseSeconds, session: "s", request: `r${this.#requests}` });
    const outcome = await this.#attempt(async (): Promise<AcquireOutcome> => keyStub(this.name).acquire(asked));
    if (outcome?.status !== "granted") {
      // As a session does when it does not know what became of its request.
      if (outcome === undefined) await this.#attempt(() => keyStub(this.name).cancel(asked.request));
      return;
    }
    this.told.push(`granted ${outcome.token}`);
    expect(this.#held.filter(({ endsAt }) => endsAt > Date.now())).toEqual([]);
    expect(outcome.token > this.#lastFence).toBe(true);
    this.#lastFence = outcome.token;
    this.#mayHaveLostRows = false;
    this.#held = [{ token: outcome.token, endsAt: Date.now() + leaseSeconds * 1_000 }];
  }

  async #release(): Promise<void> {
    for (const { token } of this.#held) {
      const outcome = await this.#attempt(() => keyStub(this.name).release(token, ""));
      if (outcome?.status === "released") this.#held = [];
    }
  }

  /** The operator has made sure that nobody works under the lock. */
  async #giveUp(): Promise<void> {
    const hasGivenUp = await this.#attempt(() => keyStub(this.name).giveUp());
    if (!hasGivenUp) return;
    this.#held = [];
    this.#mayHaveLostRows = false;
  }

  /** Somebody has just been granted the lock, and others ask for it again and again. */
  async #loseFile(): Promise<void> {
    await this.#acquire();
    this.#mayHaveLostRows = true;
    await this.#attempt(() => loseRows(this.name));
    // A founding is known by its millisecond.
    pass(1);
    for (let attempt = 0; attempt < 3; attempt++) await this.#acquire();
  }

  /** Visits that are due, and those that the cap on keys asks for, at once. */
  async #visit(): Promise<void> {
    const directory = directoryOfKey(env, this.name);
    const alarm = () => runInDurableObject(directory, (object) => (object as DirectoryObject).alarm());
    await Promise.all([alarm(), directory.repair("story", "keys")]);
  }

  async #visitLater(): Promise<void> {
    await this.#release();
    pass(61_000 + this.#schedule.between(0, 100_000));
    await this.#visit();
    if (this.#schedule.happens(0.5)) await this.#attempt(() => evictDurableObject(keyStub(this.name)));
    if (this.#schedule.happens(0.3)) await this.#loseFile();
  }

  /** What fails has only its own caller to answer to, if it fails for a reason that was planted. */
  async #attempt<Result>(work: () => Promise<Result>): Promise<Result | undefined> {
    try {
      return await work();
    } catch (error) {
      const reason = String(error);
      this.told.push(reason);
      const isPlanted = /planted|is not running|not currently running/.test(reason);
      if (!isPlanted && !(reason.includes(GONE) && this.#mayHaveLostRows)) throw error;
      return undefined;
    }
  }

  /** One call in three about this key goes wrong. */
  #disturb(prototype: object, method: string, again: (...args: readonly unknown[]) => Promise<unknown>): void {
    const story = this;
    const original = (prototype as Record<string, Method>)[method] as Method;
    vi.spyOn(prototype as Record<string, Method>, method).mockImplementation(function (this: unknown, ...args) {
      const { id } = (this as { ctx: DurableObjectState }).ctx;
      const isAboutIt = id.name === story.name || args[0] === story.name;
      const fate = isAboutIt && story.#isFaulty ? story.#schedule.chance() : 1;
      if (fate < 0.1) throw new Error(`planted: ${method} is lost`);
      if (fate < 0.15) {
        story.#late.push(() => again(...args));
        throw new Error(`planted: ${method} is late`);
      }
      if (fate > 0.3) return original.apply(this, args);
      story.told.push(`the answer to ${method} is lost`);
      return (async () => {
        await original.apply(this, args);
        if (fate < 0.2) story.#late.push(() => again(...args));
        throw new Error(`planted: the answer to ${method} is lost`);
      })();
    });
  }
}

it.each(Array.from({ length: SEEDS }, (_, seed) => [seed]))("whatever is lost, one holder (seed %i)", async (seed) => {
  const story = new Story(seed);
  try {
    await story.run();
    await story.end();
  } catch (error) {
    throw new Error(`${error}\n${story.told.join("\n")}`, { cause: error });
  }
});
