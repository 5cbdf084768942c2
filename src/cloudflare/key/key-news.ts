import type { KeyEngine, KeyEvent, NoticeAnswer, RoundEvent } from "../../core/engine/index.ts";
import type { KeyMeter } from "../../core/key/meter.ts";
import { sessionlessProtocolOf } from "../../core/session-names.ts";
import { log } from "../../log.ts";
import { sessionObject } from "../calls/session-names.ts";
import type { PartialEnv } from "../env.ts";
import type { Decision } from "./key-commands.ts";
import type { KeyListeners } from "./listeners.ts";
import type { RoundNews } from "./rounds.ts";

/** The parts of a key that its news needs. */
interface Parts {
  readonly env: PartialEnv;
  readonly name: string;
  readonly listeners: KeyListeners;
  readonly meter: KeyMeter;
  readonly rounds: RoundNews;
  /** Runs a command, unless the key has been loaded again since. */
  run<Outcome>(engine: KeyEngine, decide: Decision<Outcome>): Outcome | undefined;
}

/** Brings a key's news to its sessions and listeners, and their answers to the engine. */
export class KeyNews {
  readonly #parts: Parts;

  constructor(parts: Parts) {
    this.#parts = parts;
  }

  /**
   * Notifies a session, a listener of this key, or the relay. A notice that gets no answer is repeated from the alarm.
   */
  async tell(engine: KeyEngine, event: KeyEvent): Promise<void> {
    if (event.type === "round" || event.type === "round_over") return this.#tellRelay(engine, event);
    const { env, name: key, meter } = this.#parts;
    try {
      if (sessionlessProtocolOf(event.session)) {
        if (event.type === "notice") this.#tellListener(engine, event.request);
        return;
      }
      const session = sessionObject(env, event.session);
      if (event.type === "lost") {
        await session.lose({ key, token: event.token, reason: event.reason });
        return;
      }
      if (event.type === "wanted") {
        // Not repeated: the holder's next renewal tells the same.
        await session.want({ key, token: event.token });
        return;
      }
      const { type: _, session: __, ...notice } = event;
      const { answer } = await session.deliver({ key, ...notice });
      meter.answered(answer);
      const { request, offer } = notice;
      this.#parts.run(engine, (_, context) => engine.answer(request, answer, context, offer?.token));
    } catch (error) {
      log("warn", "session_unreachable", { error: String(error) });
    }
  }

  /** A round whose session is gone is withdrawn instead: no waiter stays behind a client that was lost in a crash. */
  async #tellRelay(engine: KeyEngine, event: RoundEvent): Promise<void> {
    try {
      if (await this.#parts.rounds.tell(event)) return;
      this.#parts.run(engine, (_, context) => engine.cancel(event.request, context));
    } catch (error) {
      log("warn", "relay_unreachable", { error: String(error) });
    }
  }

  /** Answers a claim's listener. A claim without one leaves the queue, unless the listener may still reconnect. */
  #tellListener(engine: KeyEngine, request: string): void {
    const { listeners, meter } = this.#parts;
    const isWaiting = listeners.isWaiting(request);
    const answer: NoticeAnswer = isWaiting ? "taken" : listeners.mayReturn(request) ? "later" : "gone";
    const outcome = isWaiting && this.#parts.run(engine, (_, context) => engine.collect(request, context));
    if (outcome) listeners.answer(request, outcome);
    meter.answered(answer);
    this.#parts.run(engine, (_, context) => engine.answer(request, answer, context));
  }
}
