import type { AgreedHold, RoundEvent } from "../../core/engine/index.ts";
import { commitMsFor } from "../../core/group/relay.ts";
import { sessionObject } from "../calls/session-names.ts";
import type { PartialEnv } from "../env.ts";
import { relayOf } from "../relay/relay-name.ts";

/** A client that asks for so many rounds in a row is looked after: it may have been lost without a word. */
const LOOK_EVERY = 10;
const MAX_KNOWN = 1_000;

/**
 * How a key calls the relay of its deployment. Calls arrive in order: the end of a hold before the next round.
 *
 * A session that is lost with its object, in a crash, sends no notice. Its other waiters are found to be gone when they
 * are granted something, but without a quorum nothing is granted, and all others would wait behind it.
 */
export class RoundNews {
  readonly #env: PartialEnv;
  readonly #lock: string;
  #stub: ReturnType<typeof relayOf> | undefined;
  /** Rounds begun, by request; only of those that came while the object was awake. */
  readonly #rounds = new Map<string, number>();

  constructor(env: PartialEnv, lock: string) {
    this.#env = env;
    this.#lock = lock;
  }

  /** A request that needs a quorum has come. */
  came(request: string): void {
    if (this.#rounds.size >= MAX_KNOWN) this.#rounds.clear();
    this.#rounds.set(request, 0);
  }

  /**
   * False if the session of the round is gone. A call that fails is not repeated: without word from its round, the key
   * gives it up and begins another one.
   */
  async tell(event: RoundEvent): Promise<boolean> {
    const { session, request, mark } = event;
    const turn = { lock: this.#lock, request, mark };
    if (event.type === "round_over") {
      this.#rounds.delete(request);
      await this.#call((relay) => relay.over(turn));
      return true;
    }
    const { leaseMs } = event;
    if (this.#isDoubtful(request) && !(await sessionObject(this.#env, session).isLive()).isLive) return false;
    await this.#call((relay) => relay.begin({ ...turn, leaseMs }));
    return true;
  }

  /** Whether a majority keeps the lock for this long. */
  async prolong(hold: AgreedHold, leaseMs: number): Promise<boolean> {
    const commitMs = commitMsFor(hold, leaseMs);
    const { isAgreed } = await this.#call((relay) => relay.prolong({ lock: this.#lock, fence: hold.fence, commitMs }));
    return isAgreed;
  }

  #isDoubtful(request: string): boolean {
    const before = this.#rounds.get(request);
    this.#rounds.set(request, (before ?? 0) + 1);
    return before === undefined || (before + 1) % LOOK_EVERY === 0;
  }

  async #call<Result>(ask: (relay: ReturnType<typeof relayOf>) => Promise<Result>): Promise<Result> {
    const stub = this.#stub ?? relayOf(this.#env);
    this.#stub = stub;
    try {
      return await ask(stub);
    } catch (error) {
      // A stub that has thrown may be broken for good.
      if (this.#stub === stub) this.#stub = undefined;
      throw error;
    }
  }
}
