import type { WakeUp } from "../awake/wake-up.ts";
import type { Conversation } from "./conversation.ts";

/** A handshake completed within this time sets no alarm: a timer is free, an alarm costs a write. */
const SOON_MS = 2_000;

/** Ends the conversation with a client that does not authenticate in time. */
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
        // If the client was refused just now, the deadline is Infinity, which sets no alarm.
        this.#wakeUp.by(conversation.readDeadline);
      },
      Math.max(0, Math.min(SOON_MS, leftMs)),
    );
  }

  /** The handshake is complete, or the socket is gone. */
  end(): void {
    if (this.#timer !== undefined) clearTimeout(this.#timer);
    this.#timer = undefined;
  }
}
