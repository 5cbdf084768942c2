import { type AgreedHold, fenceToHex } from "../engine/index.ts";
import type { RelayReply } from "../protocols/godistlock/relay.ts";
import { Ballot, type Phase } from "./ballot.ts";
import type { Question, RelayEffect, RoundId } from "./effects.ts";
import { orderedNonce } from "./nonces.ts";

/** A peer that has not answered a question by then has not agreed. */
const PHASE_MS = 1_000;
/** Peers keep a lock for this much longer than the local lease, which starts later than theirs. */
const OUTLASTS_MS = 1_000;
/** The key gives a round up after a phase and a quarter: it is told in time that the round goes on. */
const KEPT_FOR_MS = 200;
const MIN_PAUSE_MS = 50;
const PAUSE_RANGE_MS = 100;
/** Answers that come later than this are not recognised. By then only committed holds are left at a peer. */
const FORGET_MS = 60_000;

/**
 * For how long peers have to keep a hold that is prolonged by `leaseMs`. What they have agreed to is never shortened: if
 * they did and too few of them were heard, the hold would outlast them.
 */
export function commitMsFor({ remainingMs }: AgreedHold, leaseMs: number): number {
  return Math.ceil(Math.max(leaseMs, remainingMs)) + OUTLASTS_MS;
}

type Stage = "prop" | "sched" | "fencing" | "comm" | "agreeing";

interface Round extends RoundId {
  mark: string;
  readonly leaseMs: number;
  readonly ballot: Ballot;
  stage: Stage;
  endsAt: number;
  keptAt: number;
  fence: bigint;
}

/** A lock that a majority has committed to this deployment. */
interface Agreement extends RoundId {
  readonly fence: bigint;
  readonly peers: Set<string>;
  /** When the local lease ends at the latest. */
  endsAt: number;
}

interface Prolongation {
  readonly lock: string;
  readonly ballot: Ballot;
  readonly endsAt: number;
}

interface OpenQuestion {
  readonly peer: string;
  readonly lock: string;
  readonly phase: Phase;
  /** The round or prolongation that it belongs to. */
  readonly of: Round | string;
  readonly askedAt: number;
}

export interface RelayOptions {
  readonly peers: readonly string[];
  /** Deployments that have to agree, this one included. */
  readonly need: number;
  /** Higher than in every earlier life of this relay. */
  readonly epoch: number;
  readonly random: () => number;
}

export interface ProlongCommand {
  readonly lock: string;
  /** Names the call in its answer. */
  readonly call: string;
  readonly fence: bigint;
  /** How long the peers keep the lock from now on. */
  readonly commitMs: number;
}

/**
 * One deployment's part in agreeing with others on who has a lock: rounds, and what follows from them. Commands and
 * the time come in, effects go out. Nothing here needs to survive a restart: without word from a round the key gives it
 * up, and peers end what is held by time.
 */
export class Relay {
  readonly #options: RelayOptions;
  readonly #rounds = new Map<string, Round>();
  readonly #agreements = new Map<string, Agreement>();
  readonly #prolongations = new Map<string, Prolongation>();
  readonly #open = new Map<string, OpenQuestion>();
  #asked = 0;
  #effects: RelayEffect[] = [];

  constructor(options: RelayOptions) {
    this.#options = options;
  }

  /** The key has given the slot to a request: asks all peers whether it may have the lock. */
  begin({ lock, request, mark, leaseMs }: RoundId & { readonly leaseMs: number }, now: number): void {
    const known = this.#rounds.get(lock)?.mark ?? this.#agreements.get(lock)?.mark;
    // Marks rise. A round that was overtaken on the way here must not disturb what came after it.
    if (known !== undefined && mark < known) return;
    const ballot = new Ballot(this.#options.need);
    // An earlier round for this lock is forgotten. What it has left at peers, this round takes over.
    const id = { lock, request, mark, leaseMs };
    const round: Round = { ...id, ballot, stage: "prop", endsAt: 0, keptAt: now, fence: 0n };
    this.#rounds.set(lock, round);
    this.#agreements.delete(lock);
    this.#enter(round, "prop", this.#options.peers, now);
    this.#judge(round, now);
  }

  /** The request, or the hold it became, has ended at the key. */
  over({ lock, mark }: RoundId, now: number): void {
    const round = this.#rounds.get(lock);
    const agreement = this.#agreements.get(lock);
    if (round?.mark === mark) {
      this.#rounds.delete(lock);
      this.#offTo(round.ballot.agreed, lock, now);
    } else if (agreement?.mark === mark) {
      this.#agreements.delete(lock);
      this.#offTo([...agreement.peers], lock, now);
    }
    // From before a restart. Peers without a hold of ours do nothing.
    else if (!round && !agreement) this.#offTo(this.#options.peers, lock, now);
  }

  /** Asks the peers that have committed to a lock to keep it for longer. */
  prolong({ lock, call, fence, commitMs }: ProlongCommand, now: number): void {
    const agreement = this.#agreements.get(lock);
    const isKnown = agreement?.fence === fence;
    // That hold has ended meanwhile. The peers must not take this for the hold, or the round, that came after it.
    if ((agreement && !isKnown) || this.#rounds.has(lock)) {
      this.#effects.push({ type: "prolonged", call, isAgreed: false });
      return;
    }
    const ballot = new Ballot(this.#options.need);
    const prolongation = { lock, ballot, endsAt: now + PHASE_MS };
    this.#prolongations.set(call, prolongation);
    for (const peer of isKnown ? agreement.peers : this.#options.peers) {
      ballot.asked(peer, "comm");
      this.#ask(peer, { type: "comm", lock, timeoutMs: commitMs, fence }, call, now);
    }
    if (isKnown) agreement.endsAt = Math.max(agreement.endsAt, now + commitMs - OUTLASTS_MS);
    this.#judgeProlongation(call, prolongation, now);
  }

  /** The key has kept the round, or has given it up. */
  kept({ lock, mark }: RoundId, isKept: boolean, now: number): void {
    const round = this.#roundOf(lock, mark);
    if (round && !isKept) this.#abandon(round, now);
  }

  /** The fence that the key has minted; undefined if it has given the round up. */
  fenced({ lock, mark }: RoundId, fence: bigint | undefined, now: number): void {
    const round = this.#roundOf(lock, mark);
    if (round?.stage !== "fencing") return;
    if (fence === undefined) {
      this.#abandon(round, now);
      return;
    }
    round.fence = fence;
    round.mark = fenceToHex(fence);
    this.#enter(round, "comm", round.ballot.yesTo("sched"), now);
    this.#judge(round, now);
  }

  /** The key has made it a hold, or has given the round up. */
  agreed({ lock, request, mark }: RoundId, isHeld: boolean, now: number): void {
    const round = this.#roundOf(lock, mark);
    if (round?.stage !== "agreeing") return;
    if (!isHeld) {
      this.#abandon(round, now);
      return;
    }
    this.#rounds.delete(lock);
    const { fence, leaseMs, ballot } = round;
    const peers = new Set(ballot.agreed);
    // The last phase began a phase's time before its end.
    const endsAt = round.endsAt - PHASE_MS + leaseMs + OUTLASTS_MS;
    this.#agreements.set(lock, { lock, request, mark, fence, peers, endsAt });
  }

  /** A peer's answer. One to a question that is not open is ignored. */
  heard(peer: string, reply: Extract<RelayReply, { type: "stat" | "ack" | "conf" }>, now: number): void {
    const question = this.#open.get(reply.nonce);
    if (question?.peer !== peer || ANSWERS[question.phase] !== reply.type) return;
    this.#open.delete(reply.nonce);
    const isLate = now - question.askedAt > PHASE_MS;
    const floor = reply.type === "stat" ? reply.floor : undefined;
    if (typeof question.of === "string") this.#heardOfProlongation(question.of, question, reply.status, now);
    else if (isLate) this.#heardLate(question, reply.status, now);
    else this.#heardOfRound(question.of, question, { status: reply.status, floor }, now);
  }

  /** The link to a peer is lost, or cannot be made: what it was asked will not be answered. */
  unreachable(peer: string, now: number): void {
    for (const [nonce, question] of this.#open) {
      if (question.peer !== peer) continue;
      this.#open.delete(nonce);
      const { of, phase } = question;
      const ballot = typeof of === "string" ? this.#prolongations.get(of)?.ballot : of.ballot;
      ballot?.silent(peer, phase);
    }
    for (const round of [...this.#rounds.values()]) this.#judge(round, now);
    for (const [call, prolongation] of [...this.#prolongations]) this.#judgeProlongation(call, prolongation, now);
  }

  tick(now: number): void {
    for (const [nonce, { askedAt }] of this.#open) if (now - askedAt > FORGET_MS) this.#open.delete(nonce);
    for (const round of [...this.#rounds.values()]) this.#judge(round, now);
    for (const [call, prolongation] of [...this.#prolongations]) this.#judgeProlongation(call, prolongation, now);
    for (const [lock, { endsAt }] of this.#agreements) if (now > endsAt + FORGET_MS) this.#agreements.delete(lock);
  }

  /** When `tick` has something to do. */
  get nextWake(): number {
    let earliest = Number.POSITIVE_INFINITY;
    for (const { stage, endsAt } of this.#rounds.values())
      if (stage !== "fencing" && stage !== "agreeing") earliest = Math.min(earliest, endsAt);
    for (const { endsAt } of this.#prolongations.values()) earliest = Math.min(earliest, endsAt);
    return earliest;
  }

  takeEffects(): readonly RelayEffect[] {
    const effects = this.#effects;
    this.#effects = [];
    return effects;
  }

  /** Decides whether a phase is over, and how. */
  #judge(round: Round, now: number): void {
    const { lock, request, ballot, stage } = round;
    if (stage === "fencing" || stage === "agreeing" || this.#rounds.get(lock) !== round) return;
    if (ballot.hasMajority(stage)) this.#next(round, stage, now);
    else if (now >= round.endsAt || !ballot.mayHaveMajority(stage)) {
      this.#rounds.delete(lock);
      this.#offTo(ballot.agreed, lock, now);
      const pauseMs = Math.round(MIN_PAUSE_MS + PAUSE_RANGE_MS * this.#options.random());
      this.#effects.push({ type: "fail", lock, request, mark: round.mark, end: { ...ballot.refusal(), pauseMs } });
    }
  }

  #next(round: Round, stage: Phase, now: number): void {
    const { lock, request, mark, ballot } = round;
    if (stage === "prop") {
      if (now - round.keptAt > KEPT_FOR_MS) {
        round.keptAt = now;
        this.#effects.push({ type: "keep", lock, request, mark });
      }
      this.#enter(round, "sched", ballot.yesTo("prop"), now);
      this.#judge(round, now);
    } else if (stage === "sched") {
      round.stage = "fencing";
      this.#effects.push({ type: "fence", lock, request, mark, floor: ballot.floor });
    } else {
      round.stage = "agreeing";
      this.#effects.push({ type: "agree", lock, request, mark });
    }
  }

  #enter(round: Round, phase: Phase, peers: readonly string[], now: number): void {
    round.stage = phase;
    round.endsAt = now + PHASE_MS;
    for (const peer of peers) this.#askInRound(round, peer, phase, now);
  }

  #askInRound(round: Round, peer: string, phase: Phase, now: number): void {
    const { lock, leaseMs, fence, ballot } = round;
    ballot.asked(peer, phase);
    if (phase === "comm") {
      const left = leaseMs - Math.max(0, now - (round.endsAt - PHASE_MS));
      this.#ask(peer, { type: "comm", lock, timeoutMs: Math.max(1, left) + OUTLASTS_MS, fence }, round, now);
    } else this.#ask(peer, { type: phase, lock }, round, now);
  }

  #heardOfRound(
    round: Round,
    { peer, lock, phase }: OpenQuestion,
    { status, floor }: { status: number; floor: bigint | undefined },
    now: number,
  ): void {
    round.ballot.answered(peer, phase, status, floor);
    if (this.#rounds.get(lock) === round) {
      const running = RUNNING[round.stage];
      // It has agreed to a question whose phase is over: it is asked the one of the phase that is running.
      if (status === 0 && running !== phase) this.#askInRound(round, peer, running, now);
      this.#judge(round, now);
    } else if (status === 0) this.#agreedAfterwards(round, { peer, phase }, now);
  }

  /** A peer agreed when its round was over already. */
  #agreedAfterwards({ lock, mark }: Round, { peer, phase }: Pick<OpenQuestion, "peer" | "phase">, now: number): void {
    const agreement = this.#agreements.get(lock);
    if (agreement?.mark !== mark) {
      if (!this.#rounds.has(lock) && !agreement) this.#offTo([peer], lock, now);
      return;
    }
    agreement.peers.add(peer);
    if (phase === "comm") return;
    const timeoutMs = Math.max(1, agreement.endsAt - now);
    this.#ask(peer, { type: "comm", lock, timeoutMs, fence: agreement.fence }, "", now);
  }

  /** An answer that came too late is a refusal, whatever it says. */
  #heardLate({ peer, lock, phase, of }: OpenQuestion, status: number, now: number): void {
    if (typeof of === "string") return;
    of.ballot.silent(peer, phase);
    const running = this.#rounds.get(lock);
    const isNewer = (running && running !== of) || (this.#agreements.get(lock)?.mark ?? of.mark) !== of.mark;
    if (status === 0 && !isNewer) {
      this.#agreements.get(lock)?.peers.delete(peer);
      this.#offTo([peer], lock, now);
    }
    if (running) this.#judge(running, now);
  }

  #heardOfProlongation(call: string, { peer }: OpenQuestion, status: number, now: number): void {
    const prolongation = this.#prolongations.get(call);
    if (!prolongation) return;
    prolongation.ballot.answered(peer, "comm", status);
    this.#judgeProlongation(call, prolongation, now);
  }

  #judgeProlongation(call: string, { ballot, endsAt }: Prolongation, now: number): void {
    const isAgreed = ballot.hasMajority("comm");
    if (!isAgreed && now < endsAt && ballot.mayHaveMajority("comm")) return;
    this.#prolongations.delete(call);
    this.#effects.push({ type: "prolonged", call, isAgreed });
  }

  /** The key has given the round up: tells the peers that agreed to it. */
  #abandon(round: Round, now: number): void {
    this.#rounds.delete(round.lock);
    this.#offTo(round.ballot.agreed, round.lock, now);
  }

  #roundOf(lock: string, mark: string): Round | undefined {
    const round = this.#rounds.get(lock);
    return round?.mark === mark ? round : undefined;
  }

  #offTo(peers: readonly string[], lock: string, now: number): void {
    for (const peer of peers) this.#ask(peer, { type: "off", lock }, "", now);
  }

  #ask(peer: string, asked: DistributiveOmit<Question, "nonce">, of: Round | string, now: number): void {
    this.#asked += 1;
    const nonce = orderedNonce(this.#options.epoch, this.#asked);
    const question = { ...asked, nonce };
    // An `OFF` is not answered.
    if (question.type !== "off") {
      this.#open.set(nonce, { peer, lock: question.lock, phase: question.type, of, askedAt: now });
    }
    this.#effects.push({ type: "send", peer, question });
  }
}

const ANSWERS = { prop: "stat", sched: "ack", comm: "conf" } as const satisfies Record<Phase, string>;

/** The question that a peer is asked that agrees in this stage. */
const RUNNING: Readonly<Record<Stage, Phase>> = {
  prop: "prop",
  sched: "sched",
  fencing: "sched",
  comm: "comm",
  agreeing: "comm",
};

type DistributiveOmit<Union, Key extends PropertyKey> = Union extends unknown ? Omit<Union, Key> : never;
