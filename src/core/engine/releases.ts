import type { Slot } from "./slots.ts";

/** A call that has ended a hold, and the fence of that hold. */
export type Release = readonly [id: string, fence: string];

/** Kept per slot: a lost answer is asked for again at once, but the slot may change hands meanwhile. */
const MAX_RELEASES = 4;

/**
 * The calls that have ended the last holds of each slot. A host that has lost the answer to such a call makes it again
 * under the same id, and gets the same answer. Stored with the slot, in the row that the end of the hold writes anyway.
 */
export class Releases {
  /** The fence of the hold that was ended, by id. */
  #fences: Map<string, string> | undefined;

  restore({ releases }: Slot): void {
    for (const [id, fence] of releases) this.#set(id, fence);
  }

  /** This call is about to end the hold. Without an id it is never made again. */
  add(slot: Slot, id: string | undefined): void {
    if (id === undefined) return;
    for (const [old] of slot.releases.slice(MAX_RELEASES - 1)) this.#fences?.delete(old);
    slot.releases = [[id, slot.fence], ...slot.releases.slice(0, MAX_RELEASES - 1)];
    this.#set(id, slot.fence);
  }

  /** Whether the call has been carried out before: it ended this hold, or, without a fence, any. */
  has(id: string | undefined, fence?: string): boolean {
    const ended = id === undefined ? undefined : this.#fences?.get(id);
    return ended !== undefined && (fence ?? ended) === ended;
  }

  #set(id: string, fence: string): void {
    this.#fences ??= new Map();
    this.#fences.set(id, fence);
  }
}
