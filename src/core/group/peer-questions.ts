import type { RelayAnswer, RelayQuestion } from "../engine/index.ts";
import { exchangesFences, type RelayReply, STAT } from "../protocols/godistlock/relay.ts";
import type { Continuation } from "./dial.ts";
import type { Question } from "./effects.ts";
import { orderOf } from "./nonces.ts";

/** A proposal is forgotten after this time; it ends by itself after a second. */
const PROPOSED_MS = 5_000;

const QUESTION_TYPE = { prop: "propose", sched: "schedule", off: "off" } as const;
const PROPOSAL_STATUS = {
  agreed: STAT.agreed,
  held: STAT.heldHere,
  held_for_another: STAT.heldForAnother,
  not_held: STAT.heldHere,
} as const;

/** The keys of this deployment, as peers may ask them. */
interface AskedKeys {
  /** Undefined, or null, if the key can hold nothing for the peer. */
  relay(lock: string, question: RelayQuestion, answer: Continuation<RelayAnswer | null | undefined>): void;
}

/** The peers, as far as their number decides. */
interface Quorum {
  /** Whether enough peers have been heard from. If not, the missing ones are asked for a sign of life first. */
  seesQuorum(told: (isSeen: boolean) => void): void;
}

/** Passes what peers ask on to the keys of this deployment. */
export class PeerQuestions {
  readonly #keys: AskedKeys;
  readonly #peers: Quorum;
  readonly #now: () => number;
  /** When a peer has last proposed for a lock, to be freed if all its connections end. */
  readonly #proposals = new Map<string, Map<string, number>>();

  constructor(keys: AskedKeys, peers: Quorum, now: () => number) {
    this.#keys = keys;
    this.#peers = peers;
    this.#now = now;
  }

  answer(peer: string, version: string, question: Question, reply: Continuation<RelayReply | undefined>): void {
    const hasFences = exchangesFences(version);
    if (question.type !== "prop") {
      this.#ask(peer, question, hasFences, reply);
      return;
    }
    this.#peers.seesQuorum((isSeen) => {
      if (isSeen) this.#ask(peer, question, hasFences, reply);
      else reply.done(replyTo(question, undefined, hasFences));
    });
  }

  /** The last connection of a peer has ended, and with it what it holds preliminarily. */
  left(peer: string, withdrawn: Continuation<unknown>): void {
    const locks = [...(this.#proposals.get(peer)?.keys() ?? [])];
    this.#proposals.delete(peer);
    for (const lock of locks) this.#keys.relay(lock, { relay: peer, type: "withdraw" }, withdrawn);
  }

  #ask(peer: string, question: Question, hasFences: boolean, reply: Continuation<RelayReply | undefined>): void {
    this.#noteProposal(peer, question);
    this.#keys.relay(question.lock, questionOf(peer, question, hasFences), {
      done: (answer) => reply.done(replyTo(question, answer ?? undefined, hasFences)),
      failed: (error) => reply.failed(error),
    });
  }

  #noteProposal(peer: string, { type, lock }: Question): void {
    const locks = this.#proposals.get(peer) ?? new Map<string, number>();
    this.#proposals.set(peer, locks);
    if (type === "prop" || type === "sched") locks.set(lock, this.#now());
    else locks.delete(lock);
    for (const [each, at] of locks) {
      if (this.#now() - at < PROPOSED_MS) break;
      locks.delete(each);
    }
  }
}

function questionOf(relay: string, question: Question, hasFences: boolean): RelayQuestion {
  const order = hasFences ? orderOf(question.nonce) : undefined;
  const asker = { relay, ...(order !== undefined && { order }) };
  if (question.type !== "comm") return { ...asker, type: QUESTION_TYPE[question.type] };
  const { timeoutMs: leaseMs, fence } = question;
  return { ...asker, type: "commit", leaseMs, ...(hasFences && fence !== undefined && { fence }) };
}

/** Without an answer, there is no quorum or no room. */
function replyTo(
  { type, nonce }: Question,
  answer: RelayAnswer | undefined,
  hasFences: boolean,
): RelayReply | undefined {
  if (type === "off") return undefined;
  if (type !== "prop")
    return { type: type === "sched" ? "ack" : "conf", nonce, status: answer?.status === "agreed" ? 0 : 1 };
  const status = answer ? PROPOSAL_STATUS[answer.status] : STAT.noQuorum;
  return { type: "stat", nonce, status, ...(hasFences && { floor: answer?.floor ?? 0n }) };
}
