import type { CommandContext, KeyEngine, RoundEnd, RoundEvent, RoundOf } from "../../engine/index.ts";
import type { Env } from "../env.ts";
import { relayOf } from "../relay/relay-name.ts";

/** What the relay of this deployment has to say about a round. */
export type RoundStep =
  | ({ readonly do: "keep" | "agree" } & RoundOf)
  | ({ readonly do: "fence"; readonly floor: bigint } & RoundOf)
  | ({ readonly do: "fail"; readonly end: RoundEnd } & RoundOf);

/** Peers keep a lock for this much longer than the local lease. */
const OUTLASTS_MS = 1_000;

export function takeRoundStep(
  engine: KeyEngine,
  step: RoundStep,
  context: CommandContext,
): bigint | boolean | undefined {
  const { rounds } = engine;
  switch (step.do) {
    case "keep":
      return rounds.keep(step, context);
    case "fence":
      return rounds.fence(step, step.floor, context);
    case "agree":
      return rounds.agree(step, context);
    case "fail":
      rounds.fail(step, step.end, context);
      return undefined;
  }
}

/** How a key calls the relay of its deployment. Calls arrive in order: the end of a hold before the next round. */
export class RelayCalls {
  readonly #env: Env;
  readonly #lock: string;
  #stub: ReturnType<typeof relayOf> | undefined;

  constructor(env: Env, lock: string) {
    this.#env = env;
    this.#lock = lock;
  }

  /** A call that fails is not repeated: without word from its round, the key gives it up and begins another one. */
  async tell({ type, request, mark, ...rest }: RoundEvent): Promise<void> {
    const turn = { lock: this.#lock, request, mark };
    if (type === "round_over") await this.#call((relay) => relay.over(turn));
    else if ("leaseMs" in rest) await this.#call((relay) => relay.begin({ ...turn, leaseMs: rest.leaseMs }));
  }

  /**
   * Whether a majority keeps the lock for this long. What they have agreed to is never shortened: if they did and too
   * few of them were heard, the hold would outlast them.
   */
  async prolong(hold: { fence: bigint; remainingMs: number }, leaseMs: number): Promise<boolean> {
    const commitMs = Math.ceil(Math.max(leaseMs, hold.remainingMs)) + OUTLASTS_MS;
    return this.#call((relay) => relay.prolong({ lock: this.#lock, fence: hold.fence, commitMs }));
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
