import { allDirectories } from "./directories.ts";
import type { Env } from "./env.ts";

/** Things of which a service may have a limited number. */
export type Counted = "keys" | "sessions";

/** The number of each that a shard has, those it is about to admit included. */
export type Tally = Readonly<Record<Counted, number>>;

type Tallies = Map<string, Record<Counted, number>>;

const REPAIR_EVERY_MS = 5_000;

/**
 * Adds up the shards, so that a cap on the whole service is exact. It stores nothing: a new one asks all shards, and
 * each claim names the shard's own absolute count, so a lost or doubled message leaves no error behind.
 */
export class Ledger {
  readonly #env: Env;
  #tallies: Tallies | undefined;
  #repairedAt = 0;
  #turn: Promise<unknown> = Promise.resolve();

  constructor(env: Env) {
    this.#env = env;
  }

  /** True if the shard, which has so many, may have one more: all shards together then stay within `cap`. */
  claim(shard: string, counted: Counted, has: number, cap: number): Promise<boolean> {
    const claim = this.#turn.then(async () => {
      if (this.#fits(await this.#current(), shard, counted, has, cap)) return true;
      return this.#fits(await this.#repaired(), shard, counted, has, cap);
    });
    this.#turn = claim.catch(() => {});
    return claim;
  }

  /** The shard has `count` now. */
  settle(shard: string, counted: Counted, count: number): void {
    const tally = this.#tallies?.get(shard);
    if (tally) tally[counted] = count;
  }

  #fits(tallies: Tallies, shard: string, counted: Counted, has: number, cap: number): boolean {
    const tally = tallies.get(shard) ?? { keys: 0, sessions: 0 };
    tallies.set(shard, tally);
    tally[counted] = has;
    let total = 0;
    for (const each of tallies.values()) total += each[counted];
    if (total >= cap) return false;
    tally[counted] = has + 1;
    return true;
  }

  async #current(): Promise<Tallies> {
    this.#tallies ??= await this.#ask((directory) => directory.tally());
    return this.#tallies;
  }

  /** Before a refusal: what crashed without saying goodbye does not take up a place. */
  async #repaired(): Promise<Tallies> {
    if (Date.now() - this.#repairedAt < REPAIR_EVERY_MS) return this.#current();
    this.#repairedAt = Date.now();
    this.#tallies = await this.#ask((directory) => directory.repair());
    return this.#tallies;
  }

  async #ask(question: (directory: ReturnType<typeof allDirectories>[number]) => Promise<ShardTally>) {
    const answers = await Promise.all(allDirectories(this.#env).map(question));
    return new Map(answers.map(({ shard, keys, sessions }) => [shard, { keys, sessions }]));
  }
}

export type ShardTally = Tally & { readonly shard: string };
