import type { CommandContext } from "./commands.ts";
import { type Fence, fenceOfToken } from "./fence.ts";
import type { Holds } from "./holds.ts";
import type { Slot } from "./slots.ts";

/** What another deployment, known by its relay's id, asks about this key. */
export type RelayQuestion = {
  readonly relay: string;
  /** Rises with every question of that relay, if it says so: a question that was overtaken is recognised by it. */
  readonly order?: bigint;
} /** `withdraw` is an `off` of what is not committed. */ & (
  | { readonly type: "propose" | "schedule" | "off" | "withdraw" }
  | { readonly type: "commit"; readonly leaseMs: number; readonly fence?: Fence }
);

/**
 * `held`: by a client here, or a round of this deployment is running. `held_for_another`: relay. `not_held`: the asker
 * has no hold to keep or commit. `floor` is the highest fence of this key before the question.
 */
export interface RelayAnswer {
  readonly status: "agreed" | "held" | "held_for_another" | "not_held";
  readonly floor: Fence;
}

const KIND = "relay";
/** A hold that is not committed ends after this time. */
const PRELIMINARY_MS = 1_000;

/** Stored with a hold. */
interface Note {
  readonly order?: string | undefined;
  /** The fence by which the holder's deployment knows the grant. */
  readonly fence?: string | undefined;
}

type Step = (context: CommandContext) => void;

/**
 * Holds of other deployments: preliminary ones, which end after a second, and committed ones, which end at their time.
 * They are holds without a session. A preliminary one counts as not handed over: no client has the lock yet.
 */
export class RelayHolds {
  readonly #holds: Holds;
  readonly #tick: Step;
  readonly #beforeProposal: Step;

  constructor(holds: Holds, tick: Step, beforeProposal: Step) {
    this.#holds = holds;
    this.#tick = tick;
    this.#beforeProposal = beforeProposal;
  }

  /** The answer is immediate: no relay waits. */
  ask(question: RelayQuestion, context: CommandContext): RelayAnswer {
    this.#tick(context);
    if (question.type === "propose") this.#beforeProposal(context);
    const floor = this.#holds.lastFence;
    return { status: this.#answer(question, context), floor };
  }

  /**
   * The highest fence of those whose clients have the lock; 0 if another deployment has it and did not say which.
   * Undefined if no client has the lock.
   */
  fenceOfHolder(context: CommandContext): Fence | undefined {
    this.#tick(context);
    let newest: Slot | undefined;
    for (const slot of this.#holds) if (slot.isReported) newest = slot;
    if (!newest) return undefined;
    return isOfRelay(newest) ? BigInt(noteOf(newest).fence ?? 0) : fenceOfToken(newest.token);
  }

  #answer(question: RelayQuestion, context: CommandContext): RelayAnswer["status"] {
    const slot = this.#holds.newest;
    const isForeign = slot ? !isOfRelay(slot) : this.#holds.limit !== 1;
    if (question.type === "propose") {
      if (isForeign) {
        this.#holds.wanted.tell();
        if (slot) slot.isWantedByPeer = true;
        return "held";
      }
      if (!slot) return this.#propose(question, context);
    }
    if (!slot || isForeign || slot.sessionless?.mark !== question.relay || isOvertaken(question, slot))
      return slot && !isForeign ? "held_for_another" : "not_held";
    return this.#change(slot, question, context);
  }

  #propose({ relay, order }: RelayQuestion, context: CommandContext): RelayAnswer["status"] {
    const sessionless = { kind: KIND, mark: relay, tag: relay, note: JSON.stringify(noteWith(order)) };
    const session = `${KIND}:${relay}`;
    const taken = { session, request: `${KIND}:${relay}`, leaseSeconds: PRELIMINARY_MS / 1000, sessionless };
    return this.#holds.occupy(taken, context) ? "agreed" : "held";
  }

  /** The asker's own hold. */
  #change(slot: Slot, question: RelayQuestion, context: CommandContext): "agreed" {
    if (question.type === "withdraw" && slot.isReported) return "agreed";
    if (question.type === "off" || question.type === "withdraw") {
      this.#holds.free(slot, slot.isReported ? "returned" : "withdrawn", context);
      return "agreed";
    }
    if (question.type === "commit") this.#commit(slot, question, context);
    else if (!slot.isReported) this.#holds.leaseUntil(slot, context.now + PRELIMINARY_MS, context.now);
    const { fence = noteOf(slot).fence } = question.type === "commit" ? { fence: question.fence?.toString() } : {};
    this.#holds.note(slot, JSON.stringify({ ...noteWith(question.order), fence }));
    return "agreed";
  }

  #commit(slot: Slot, { leaseMs, fence }: Extract<RelayQuestion, { type: "commit" }>, context: CommandContext): void {
    // The row of a slot holds the highest fence of the key, so it never gets a lower one.
    if (fence !== undefined && fence > this.#holds.lastFence) this.#holds.refence(slot, fence, context.now);
    slot.leaseSeconds = leaseMs / 1000;
    if (!slot.isReported) this.#holds.handOver(slot, "immediate", context.now);
    this.#holds.leaseUntil(slot, context.now + leaseMs, context.now);
  }
}

function isOfRelay({ sessionless }: Slot): boolean {
  return sessionless?.kind === KIND;
}

/** A later question of the same relay was here before this one, or one about a later grant. */
function isOvertaken(question: RelayQuestion, slot: Slot): boolean {
  const { order: last, fence: known } = noteOf(slot);
  const { order } = question;
  if (order !== undefined && last !== undefined && order < BigInt(last)) return true;
  return question.type === "commit" && question.fence !== undefined && question.fence < BigInt(known ?? 0);
}

function noteOf({ sessionless }: Slot): Note {
  return sessionless ? (JSON.parse(sessionless.note) as Note) : {};
}

function noteWith(order: bigint | undefined): Note {
  return { order: order?.toString() };
}
