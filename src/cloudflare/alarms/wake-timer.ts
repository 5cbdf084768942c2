/** An object's one timer, for what its state machine does next. */
export class WakeTimer {
  readonly #ring: (due: number) => void;
  #set: { readonly due: number; readonly id: ReturnType<typeof setTimeout> } | undefined;

  /** `ring` is called with the time that was asked for: a clock that was set back may not have reached it. */
  constructor(ring: (due: number) => void) {
    this.#ring = ring;
  }

  /** Rings at this time and at no other; not at all at Infinity. */
  at(due: number): void {
    if (this.#set?.due === due) return;
    if (this.#set) clearTimeout(this.#set.id);
    this.#set = undefined;
    if (due === Number.POSITIVE_INFINITY) return;
    const ring = () => {
      this.#set = undefined;
      this.#ring(due);
    };
    this.#set = { due, id: setTimeout(ring, Math.max(0, due - Date.now())) };
  }
}
