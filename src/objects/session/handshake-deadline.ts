import type { WakeUp } from "../awake/wake-up.ts";
import type { Conversation } from "./conversation.ts";

/** A handshake that is done within this time sets no alarm: a timer costs nothing, an alarm a write. */
const SOON_MS = 2_000;

/** Ends the conversation with a client that does not say in time who it is. */
export class HandshakeWatch {
  readonly #wakeUp: WakeUp;
  #timer: ReturnType<typeof setTimeout> | undefined;

  constructor(wakeUp: WakeUp) {
    this.#wakeUp = wakeUp;
  }

  begin(conversation: Conversation): void {
    this.end();
    const leftMs = conversation.readDeadline - Date.now();
    if (leftMs === Number.POSITIVE_INFINITY) return;
    this.#timer = setTimeout(
      () => {
        if (conversation.isKnown) return;
        conversation.tick();
        // Infinity, which asks for nothing, if it was refused just now.
        this.#wakeUp.by(conversation.readDeadline);
      },
      Math.max(0, Math.min(SOON_MS, leftMs)),
    );
  }

  /** The handshake is over, or the socket is. */
  end(): void {
    if (this.#timer !== undefined) clearTimeout(this.#timer);
    this.#timer = undefined;
  }
}
