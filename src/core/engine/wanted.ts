import type { Granted } from "./commands.ts";
import type { Output } from "./output.ts";
import type { Slot } from "./slots.ts";

/**
 * Holders that asked to be told when another client wants the key. Each is told once, by an event or with the answer to
 * its request, and again only after a renewal that found no waiters. An event may get lost: every renewal says the
 * same.
 */
export class Wanted {
  readonly #output: Output;
  /** Those that have asked and have not been told. */
  #untold: Set<Slot> | undefined;

  constructor(output: Output) {
    this.#output = output;
  }

  /** A client wants the key and does not get it now. Tells all holders that asked: any of them may be idle. */
  tell(): void {
    for (const slot of this.#untold ?? []) {
      // A holder that has yet to pick its grant up is told with it.
      if (!slot.isReported) continue;
      const { session, token } = slot;
      this.#set(slot, true);
      this.#output.events.push({ type: "wanted", session, token });
    }
  }

  /** The holder is about to be answered. */
  answer(slot: Slot, isAnyoneWaiting: boolean): void {
    if (slot.asksWanted) this.#set(slot, isAnyoneWaiting);
  }

  /** What the answer to a renewal says: also what an event since the last answer has said. */
  renewed(slot: Slot, isAnyoneWaiting: boolean): Pick<Granted, "isWanted"> {
    const { isWanted } = slot;
    this.answer(slot, isAnyoneWaiting);
    return isWanted || slot.isWanted ? { isWanted: true } : {};
  }

  /** The hold has ended. */
  end(slot: Slot): void {
    slot.asksWanted = false;
    this.#set(slot, false);
    this.#untold?.delete(slot);
  }

  #set(slot: Slot, isWanted: boolean): void {
    slot.isWanted = isWanted;
    if (isWanted) this.#untold?.delete(slot);
    else if (slot.asksWanted) this.#untold = (this.#untold ?? new Set()).add(slot);
  }
}
