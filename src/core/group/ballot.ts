import type { RoundEnd } from "../engine/index.ts";
import { STAT } from "../protocols/godistlock/relay.ts";

/** The questions of a round, in their order. */
export const PHASES = ["prop", "sched", "comm"] as const;
export type Phase = (typeof PHASES)[number];

interface Vote {
  /** The last question that this peer was asked. */
  phase: Phase;
  state: "asked" | "yes" | "no";
  /** It has said yes to some question of this round, so it may have a hold for us. */
  hasAgreed: boolean;
}

/** The votes of one round. The own vote counts: this deployment holds the lock for the round. */
export class Ballot {
  readonly #need: number;
  readonly #votes = new Map<string, Vote>();
  /** Peers that answered the first question as members of the quorum, whatever they said. */
  readonly #heard = new Set<string>();
  #isRefused = false;
  #refusedFor = 0n;
  #floor = 0n;

  constructor(need: number) {
    this.#need = need;
  }

  /** The highest fence that any peer has stored. */
  get floor(): bigint {
    return this.#floor;
  }

  /** Peers that may have a hold for us. */
  get agreed(): string[] {
    return this.#peersWhere(({ hasAgreed }) => hasAgreed);
  }

  /** Peers that have said yes to this question. */
  yesTo(phase: Phase): string[] {
    return this.#peersWhere((vote) => vote.phase === phase && vote.state === "yes");
  }

  asked(peer: string, phase: Phase): void {
    const hasAgreed = this.#votes.get(peer)?.hasAgreed ?? false;
    this.#votes.set(peer, { phase, state: "asked", hasAgreed });
  }

  /** A peer's answer to the question of a phase. An answer to an earlier question than its last is ignored. */
  answered(peer: string, phase: Phase, status: number, floor = 0n): void {
    if (phase === "prop" && status !== STAT.noQuorum) this.#heard.add(peer);
    if (floor > this.#floor) this.#floor = floor;
    const isYes = status === STAT.agreed;
    if (!isYes) this.#refused(phase, status, floor);
    const vote = this.#votes.get(peer);
    if (vote?.phase !== phase) return;
    vote.state = isYes ? "yes" : "no";
    if (isYes) vote.hasAgreed = true;
  }

  /** A peer did not answer in time, or cannot be reached. */
  silent(peer: string, phase: Phase): void {
    const vote = this.#votes.get(peer);
    if (vote?.phase === phase && vote.state === "asked") vote.state = "no";
  }

  hasMajority(phase: Phase): boolean {
    return 1 + this.yesTo(phase).length >= this.#need;
  }

  /** Whether peers that have not answered yet could make it a majority. */
  mayHaveMajority(phase: Phase): boolean {
    const open = this.#peersWhere(({ state }) => state === "asked").length;
    return 1 + this.yesTo(phase).length + open >= this.#need;
  }

  /** What a round that failed says to a request that asks once. */
  refusal(): Omit<RoundEnd, "pauseMs"> {
    const isKnown = this.#isRefused && 1 + this.#heard.size >= this.#need;
    return isKnown ? { status: "refused", fence: this.#refusedFor } : { status: "no_quorum", fence: 0n };
  }

  #refused(phase: Phase, status: number, floor: bigint): void {
    if (phase === "prop" && status === STAT.noQuorum) return;
    this.#isRefused = true;
    if (floor > this.#refusedFor) this.#refusedFor = floor;
  }

  #peersWhere(isMeant: (vote: Vote) => boolean): string[] {
    return [...this.#votes].filter(([, vote]) => isMeant(vote)).map(([peer]) => peer);
  }
}
