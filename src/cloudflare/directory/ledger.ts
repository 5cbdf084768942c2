import { randomHex } from "../../core/hex.ts";
import type { SessionKind } from "../../core/session-counts.ts";
import { allDirectories, SHARDS } from "../calls/directories.ts";
import type { Env } from "../env.ts";
import { within } from "../pacing/within.ts";

/** What a service may have a limited number of. */
export type Counted = "keys" | SessionKind;

/** A shard's counts and its claims in flight. */
export interface ShardTally {
  readonly shard: string;
  readonly counts: Readonly<Record<Counted, number>>;
  readonly claims: Readonly<Partial<Record<Counted, string>>>;
}

/** How many of something a shard has; all shards together may have `cap`. */
export interface Holding {
  readonly shard: string;
  readonly counted: Counted;
  readonly has: number;
  readonly cap: number;
}

export interface CapRequest extends Holding {
  /** Unique. */
  readonly id: string;
}

export interface Verdict {
  readonly isGranted: boolean;
  /** The ledger instance that decided: a shard that has met a later one ignores the verdict. */
  readonly ledger: string;
}

/** Sessions and keys are probed at most this often before a claim is refused. */
const REPAIR_EVERY_MS = 1_000;
/** A shard takes less, also when it probes. One that is silent must not keep everybody waiting who claims something. */
const ANSWERS_WITHIN_MS = 10_000;
/** For so long after that, no shard is asked: those whose turn comes then have waited as well. */
const NOT_ASKED_FOR_MS = 1_000;
const UNANSWERED = `a shard of the directory, one of ${SHARDS}, has not answered`;

type Directory = ReturnType<typeof allDirectories>[number];

/**
 * Adds up the shards, so that a cap on the whole service is exact. It stores nothing: a new instance asks all shards,
 * and each claim carries the shard's absolute count, so a lost or duplicated message causes no lasting error.
 */
export class Ledger {
  readonly #env: Env;
  readonly #life = randomHex(16);
  #counts: Map<string, Record<Counted, number>> | undefined;
  /** The last claim granted to a shard: while it is in flight there, no count includes it. */
  readonly #granted = new Map<string, string>();
  readonly #repairedAt: Record<Counted, number> = { keys: 0, connections: 0, httpSessions: 0 };
  #turn: Promise<unknown> = Promise.resolve();
  #askAgainAt = 0;

  constructor(env: Env) {
    this.#env = env;
  }

  /** Grants the shard one more if all shards together stay within the cap. */
  claim(claim: CapRequest): Promise<Verdict> {
    return this.#inTurn(async () => {
      const isGranted = !(await this.#isFull(claim));
      if (isGranted) {
        this.#note({ ...claim, has: this.#countOf(claim) + 1 });
        this.#granted.set(placeOf(claim), claim.id);
      }
      return { isGranted, ledger: this.#life };
    });
  }

  /** Whether a claim would be refused. Claims nothing. */
  isFull(holding: Holding): Promise<boolean> {
    return this.#inTurn(() => this.#isFull(holding));
  }

  /** Records that the shard has fewer now. */
  settle(holding: Holding): Promise<void> {
    return this.#inTurn(async () => this.#note(holding));
  }

  async #isFull(holding: Holding): Promise<boolean> {
    if (!this.#counts) await this.#ask((directory) => directory.tally({ ledger: this.#life }));
    this.#note(holding);
    if (this.#total(holding.counted) < holding.cap) return false;
    await this.#repair(holding.counted);
    return this.#total(holding.counted) >= holding.cap;
  }

  /** Before a refusal, drops what ended without notice from the counts. */
  async #repair(counted: Counted): Promise<void> {
    if (Date.now() - this.#repairedAt[counted] < REPAIR_EVERY_MS) return;
    await this.#ask((directory) => directory.repair({ ledger: this.#life, counted }));
    this.#repairedAt[counted] = Date.now();
  }

  async #ask(question: (directory: Directory) => Promise<ShardTally>): Promise<void> {
    if (Date.now() < this.#askAgainAt) throw new Error(UNANSWERED);
    const answers = await within(ANSWERS_WITHIN_MS, Promise.all(allDirectories(this.#env).map(question)));
    if (!answers) {
      this.#askAgainAt = Date.now() + NOT_ASKED_FOR_MS;
      throw new Error(UNANSWERED);
    }
    const count = ({ shard, counts, claims }: ShardTally, counted: Counted) => {
      const claim = claims[counted];
      return counts[counted] + Number(claim !== undefined && claim === this.#granted.get(placeOf({ shard, counted })));
    };
    this.#counts = new Map(
      answers.map((answer) => [
        answer.shard,
        {
          keys: count(answer, "keys"),
          connections: count(answer, "connections"),
          httpSessions: count(answer, "httpSessions"),
        },
      ]),
    );
  }

  #note({ shard, counted, has }: Holding): void {
    const counts = this.#counts?.get(shard);
    if (counts) counts[counted] = has;
  }

  #countOf({ shard, counted }: Holding): number {
    return this.#counts?.get(shard)?.[counted] ?? 0;
  }

  #total(counted: Counted): number {
    let total = 0;
    for (const counts of this.#counts?.values() ?? []) total += counts[counted];
    return total;
  }

  #inTurn<Result>(task: () => Promise<Result>): Promise<Result> {
    const turn = this.#turn.then(task);
    this.#turn = turn.catch(() => {});
    return turn;
  }
}

function placeOf({ shard, counted }: Pick<Holding, "shard" | "counted">): string {
  return `${shard} ${counted}`;
}
