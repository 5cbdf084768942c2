import type { Bookkeeping } from "./bookkeeping.ts";
import type { AcquireCommand, AcquireOutcome, CommandContext, RoundRefusal } from "./commands.ts";
import { type Fence, fenceOfToken, nextFence } from "./fence.ts";
import { type Holds, ROUND_MS } from "./holds.ts";
import type { Notices } from "./notices.ts";
import { Slot } from "./slots.ts";
import type { WaitQueue } from "./waiters.ts";

/** Holds at other deployments outlast the local one by this much: it may start that much later. */
export const OUTLASTS_MS = 1_000;

/**
 * Names a round. A request may have many, one after the other; `mark` is the fence of its slot, 16 hex digits, which
 * `fence` replaces.
 */
export interface RoundOf {
  readonly request: string;
  readonly mark: string;
}

/** Why a round failed, and how long its request pauses before the next one, if there is one. */
export interface RoundEnd extends RoundRefusal {
  readonly pauseMs: number;
}

/**
 * Requests that other deployments have to agree to. Such a request takes the slot when it is its turn, but it is granted
 * only after a round among the deployments. Without word from the round the slot is free again after a second or so:
 * a crash leaves nothing behind. Calls about a round that has been given up change nothing and say so.
 */
export class Rounds {
  readonly #books: Bookkeeping;
  readonly #holds: Holds;
  readonly #queue: WaitQueue;
  readonly #notices: Notices;
  readonly #tick: (context: CommandContext) => void;

  constructor(
    books: Bookkeeping,
    holds: Holds,
    queue: WaitQueue,
    notices: Notices,
    tick: (context: CommandContext) => void,
  ) {
    this.#books = books;
    this.#holds = holds;
    this.#queue = queue;
    this.#notices = notices;
    this.#tick = tick;
  }

  /** Joins the queue. If the key is free, it is at its head at once, and its round begins. */
  join(command: AcquireCommand, { hasRoom }: { hasRoom: boolean }, context: CommandContext): AcquireOutcome {
    const isIdle = this.#holds.count === 0 && this.#queue.length === 0;
    this.#holds.wanted.tell();
    if (!isIdle && command.quorum === "once") {
      this.#books.output.observations.push({ type: "timeout" });
      return { status: "timeout" };
    }
    if (!isIdle && !hasRoom) return { status: "max_waiters" };
    this.#queue.join(command, { isEnqueued: false, deadline: Number.POSITIVE_INFINITY }, context.now);
    this.#holds.promote(context);
    return { status: "queued" };
  }

  /** The round goes on: it has another phase's time. The last phase, which its fence begins, cannot be made longer. */
  keep(of: RoundOf, context: CommandContext): boolean {
    const slot = this.#slotOf(of, context);
    if (slot?.round !== "open") return false;
    this.#holds.leaseUntil(slot, context.now + ROUND_MS, context.now);
    return true;
  }

  /** The fence of the grant, above all fences of this key and above `floor`. The last phase begins. */
  fence(of: RoundOf, floor: Fence, context: CommandContext): Fence | undefined {
    const slot = this.#slotOf(of, context);
    if (slot?.round !== "open") return undefined;
    const above = floor > context.fenceFloor ? floor : context.fenceFloor;
    const fence = nextFence(this.#holds.lastFence, above, context.now);
    this.#holds.refence(slot, fence, context.now);
    slot.round = "fenced";
    this.#holds.leaseUntil(slot, context.now + ROUND_MS, context.now);
    return fence;
  }

  /**
   * The others have agreed: the client gets the lock, for no longer than they keep it for this deployment. False if it
   * is too late for that. To be told so again changes nothing.
   */
  agree(of: RoundOf, context: CommandContext): boolean {
    const slot = this.#slotOf(of, context);
    if (slot?.round === "agreed") return true;
    if (slot?.round !== "fenced") return false;
    const fencedAt = slot.expiresAt - ROUND_MS;
    // Later, the holds of the others would end before the lease does.
    if (context.now > fencedAt + OUTLASTS_MS) return false;
    slot.round = "agreed";
    this.#holds.leaseUntil(slot, fencedAt + Math.round(slot.leaseSeconds * 1000) + OUTLASTS_MS, context.now);
    this.#notices.send(slot, context.now);
    return true;
  }

  /** The others have not agreed. A request that asks once has failed; any other one is back in its place. */
  fail(of: RoundOf, end: RoundEnd, context: CommandContext): void {
    const slot = this.#slotOf(of, context);
    if (!slot?.isInRound) return;
    // The relay knows already.
    slot.round = undefined;
    this.#stepBack(slot, end, context.now);
    this.#holds.promote(context);
  }

  /** Nothing was heard of the round in time: the next one may begin. */
  giveUp(slot: Slot, now: number): void {
    this.#stepBack(slot, undefined, now);
  }

  /** The hold of a session that the others have agreed to: what they have to be asked to prolong it. */
  agreed(token: string, session: string, context: CommandContext): { fence: Fence; remainingMs: number } | undefined {
    this.#tick(context);
    const slot = this.#holds.get(token);
    if (slot?.session !== session || slot.round !== "agreed" || !slot.isReported) return undefined;
    return { fence: fenceOfToken(slot.token), remainingMs: slot.expiresAt - context.now };
  }

  /** The others, asked at `askedAt`, keep the lock for this deployment for that long from then on, and a second more. */
  prolong(token: string, leaseMs: number, askedAt: number, context: CommandContext): boolean {
    this.#tick(context);
    const slot = this.#holds.get(token);
    if (slot?.round !== "agreed") return false;
    this.#books.output.observations.push({ type: "renewed", result: "ok" });
    const ends = Math.min(context.now + leaseMs, askedAt + leaseMs + OUTLASTS_MS);
    this.#holds.leaseUntil(slot, ends, context.now);
    return true;
  }

  #stepBack(slot: Slot, end: RoundEnd | undefined, now: number): void {
    const { waiter } = slot;
    slot.waiter = undefined;
    // The pause after a failed round gives peers their chance.
    slot.isWantedByPeer = false;
    this.#holds.end(slot, "withdrawn", now);
    if (!waiter) return;
    this.#queue.stepBack(waiter, end && end.pauseMs > 0 ? now + end.pauseMs : 0);
    if (!end || waiter.quorum !== "once") return;
    const { status, fence } = end;
    waiter.refusal = { status, fence };
    this.#queue.end(waiter, end.status, now);
  }

  #slotOf({ request, mark }: RoundOf, context: CommandContext): Slot | undefined {
    this.#tick(context);
    const subject = this.#books.requests.get(request);
    return subject instanceof Slot && subject.fence === mark ? subject : undefined;
  }
}
