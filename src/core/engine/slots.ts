import type { Granted, Sessionless } from "./commands.ts";
import type { Due } from "./deadlines.ts";
import { fenceOfToken, timeOfFence } from "./fence.ts";
import type { Release } from "./releases.ts";
import type { Waiter } from "./waiters.ts";

const NEVER = Number.POSITIVE_INFINITY;

export type Round = "open" | "fenced" | "agreed";

/** One of a key's `limit` slots. A free slot keeps its last token, so its fence is not forgotten. */
export class Slot implements Due {
  readonly index: number;
  token = "";
  isHeld = false;
  session = "";
  /** The request that was, or will be, answered with the token. */
  request = "";
  leaseSeconds = 0;
  /** When the lease ends; of a free slot, when it became free. */
  expiresAt = 0;
  /** When the request reached the key; once the token is handed over or offered, the time of that. */
  since = 0;
  /** The token has been handed to the client. */
  isReported = false;
  /** The session is to hear at once when the lease ends. Without waiters, nothing else has to happen then. */
  isWatched = false;
  /**
   * The token has been sent to the session, which may have handed it over. The hold stays until it is known that the
   * client does not have it. Stored with the promotion; that the client has the token is not, so after a restart the
   * session is asked again.
   */
  isOffered = false;
  /** The hold is a two-phase record of its session: `wait` has not been answered yet. */
  hasRecord = false;
  /** The client had the token from `enqueue` before it sent the `wait` that stands for the hold: it may use it. */
  wasKnown = false;
  /** The holder wants to be told when another client wants the key. */
  asksWanted = false;
  /** It has been told so. Not stored: the next renewal finds out again. */
  isWanted = false;
  /** The waiter's place in the queue; 0 if the request did not wait. */
  place = 0;
  /** Set while the holder has no session. */
  sessionless: Sessionless | undefined;
  /**
   * Set if other deployments have to agree. `open`: they are being asked. `fenced`: they are being told the fence.
   * `agreed`: the hold counts. Until then no client has the lock, and no other can get it.
   */
  round: Round | undefined;
  /** Another deployment was refused because of this hold. Not stored: it asks again. */
  isWantedByPeer = false;
  /** How its last holds were ended, newest first. */
  releases: readonly Release[] = [];
  /** The waiter that became this hold, until its session has answered. */
  waiter: Waiter | undefined;
  /** When to notify the session of the promotion (again). */
  notifyAt = NEVER;
  /** Notices sent so far. */
  notices = 0;
  scheduledAt = NEVER;

  constructor(index: number) {
    this.index = index;
  }

  /** The part of the token that may be shown: it names the hold but proves nothing. */
  get fence(): string {
    return this.token.slice(0, 16);
  }

  /** A two-phase hold whose session has not sent its `wait` yet. */
  get isBeforeWait(): boolean {
    return this.hasRecord && !this.waiter?.waitRequest;
  }

  /** Its client has the token, or may have it. */
  get mayBeKnown(): boolean {
    return this.isReported || this.isOffered;
  }

  /** Its client may have the token, or may not. */
  get isUnconfirmed(): boolean {
    return this.isHeld && this.isOffered && !this.isReported;
  }

  /** Other deployments have not agreed yet. */
  get isInRound(): boolean {
    return this.round === "open" || this.round === "fenced";
  }

  /** The reply to the request that is granted this hold. */
  get granted(): Granted {
    const { token, leaseSeconds, isWanted } = this;
    return { status: "granted", token, leaseSeconds, ...(isWanted && { isWanted }) };
  }

  /** When the token was handed over or offered; until then, when the waiter was promoted. */
  get heldSince(): number {
    if (this.mayBeKnown) return this.since;
    // The fence holds the time of the grant. If fences are ahead of the clock, the lease tells; a lease shorter than the
    // time for the pick-up then seems to start some seconds late, which is better than another row.
    return Math.min(timeOfFence(fenceOfToken(this.token)), this.expiresAt - this.leaseSeconds * 1000);
  }

  get dueAt(): number {
    return this.isHeld ? Math.min(this.expiresAt, this.notifyAt) : NEVER;
  }

  /** When the key must be woken for this hold if it has no waiters. */
  get wakeAt(): number {
    return this.isWatched || !this.isReported || this.round ? this.dueAt : NEVER;
  }
}

/** With more holds than this, the key wakes for every lease instead of searching for those that need it. */
export const FEW_HOLDS = 16;

/** When the key must be woken for these holds if it has no waiters. */
export function earliestWake(holds: Iterable<Slot>): number {
  let earliest = NEVER;
  for (const { wakeAt } of holds) earliest = Math.min(earliest, wakeAt);
  return earliest;
}

/** From now on the session hears at once when a lease of its own ends. */
export function watchAll(holds: Iterable<Slot>, session: string, { slots }: { readonly slots: Set<Slot> }): void {
  for (const slot of holds) {
    if (slot.session !== session || slot.isWatched) continue;
    slot.isWatched = true;
    slots.add(slot);
  }
}

/** All slots of a key. They are made when first needed and reused from then on. */
export class SlotPool {
  #limit: number;
  readonly #slots: Slot[] = [];
  #free: Slot[] = [];

  constructor(limit: number) {
    this.#limit = limit;
  }

  get limit(): number {
    return this.#limit;
  }

  get all(): readonly Slot[] {
    return this.#slots;
  }

  setLimit(limit: number): void {
    this.#limit = limit;
    this.#free = this.#slots.filter((slot) => !slot.isHeld && slot.index < limit);
  }

  restore(slot: Slot): void {
    this.#slots[slot.index] = slot;
    if (!slot.isHeld) this.giveBack(slot);
  }

  takeFree(): Slot | undefined {
    const free = this.#free.pop();
    if (free || this.#slots.length >= this.#limit) return free;
    const slot = new Slot(this.#slots.length);
    this.#slots.push(slot);
    return slot;
  }

  /** Slots above the limit are not used again. */
  giveBack(slot: Slot): void {
    if (slot.index < this.#limit) this.#free.push(slot);
  }
}
