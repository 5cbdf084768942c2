/** The relays around a key: that of its own deployment, which runs its rounds, and those of others. */
import type { KeyEvent, RelayQuestion, RoundOf } from "../../../src/core/engine/index.ts";
import type { Call, Result } from "../stored-engine.ts";
import type { GroupStep } from "./group-steps.ts";
import type { KeyModel } from "./key-model.ts";
import { RelayModel } from "./relay-model.ts";
import { RoundModel } from "./round-model.ts";
import type { Seen } from "./types.ts";

/** Makes a call to the engine and to the model. */
type Agree = (call: Call, predict: (now: number, seen: Seen) => unknown) => Result;

export class GroupWorld {
  readonly #model: KeyModel;
  readonly #agree: Agree;
  readonly #rounds: RoundModel;
  readonly #relays: RelayModel;
  /** Every round that the relay has been told of, under all its names. */
  readonly #known: RoundOf[] = [];
  #order = 10n;

  constructor(model: KeyModel, agree: Agree) {
    this.#model = model;
    this.#agree = agree;
    this.#rounds = new RoundModel(model);
    this.#relays = new RelayModel(model);
  }

  note(events: readonly KeyEvent[]): void {
    for (const event of events) {
      if (event.type === "round") this.#known.push({ request: event.request, mark: event.mark });
    }
  }

  take(step: GroupStep, { tokens, now }: { tokens: readonly string[]; now: number }): void {
    switch (step.step) {
      case "round":
        this.#round(step);
        return;
      case "relay": {
        const question = this.#questionOf(step);
        this.#agree({ do: "relay", question }, (now, seen) => this.#relays.ask(question, now, seen));
        return;
      }
      case "prolong":
        this.#prolong(step, tokens.at(-1 - step.token) ?? "never given", now - step.lagMs);
        return;
      case "fenceOfHolder":
        this.#agree({ do: "fenceOfHolder" }, (now) => this.#relays.fenceOfHolder(now));
    }
  }

  #round({ what, of: pick, floor: above, pauseMs }: Extract<GroupStep, { step: "round" }>): void {
    const of = this.#known.at(-1 - pick) ?? { request: "unknown", mark: "" };
    const floor = this.#model.lastFence + BigInt(above);
    switch (what) {
      case "keep":
        this.#agree({ do: "keepRound", of }, (now) => this.#rounds.keep(of, now));
        return;
      case "fence":
        this.#fence(of, floor);
        return;
      case "agree":
        this.#agree({ do: "agreeRound", of }, (now) => this.#rounds.agree(of, now));
        return;
      case "win": {
        const fenced = this.#fence(of, floor) ?? of;
        this.#agree({ do: "agreeRound", of: fenced }, (now) => this.#rounds.agree(fenced, now));
        return;
      }
      case "fail": {
        const end = { status: above > 0 ? "refused" : "no_quorum", fence: floor, pauseMs } as const;
        this.#agree({ do: "failRound", of, end }, (now) => this.#rounds.fail(of, end, now));
      }
    }
  }

  /** The round has another name from then on. */
  #fence(of: RoundOf, floor: bigint): RoundOf | undefined {
    const { outcome } = this.#agree({ do: "fenceRound", of, floor }, (now) => this.#rounds.fence(of, floor, now));
    if (typeof outcome !== "bigint") return undefined;
    const fenced = { request: of.request, mark: outcome.toString(16).padStart(16, "0") };
    this.#known.push(fenced);
    return fenced;
  }

  #questionOf({ relay: pick, what, order, leaseMs, fence }: Extract<GroupStep, { step: "relay" }>): RelayQuestion {
    if (order === "next") this.#order += 1n;
    const orders = { none: {}, next: { order: this.#order }, overtaken: { order: this.#order - 2n } };
    const asker = { relay: pick === 0 ? "s1" : "s2", ...orders[order] };
    if (what !== "commit") return { ...asker, type: what };
    const said = fence === undefined ? {} : { fence: this.#model.lastFence + BigInt(fence) };
    return { ...asker, type: what, leaseMs, ...said };
  }

  #prolong({ leaseMs }: Extract<GroupStep, { step: "prolong" }>, token: string, askedAt: number): void {
    const session = this.#model.holds.find((hold) => hold.token === token)?.session ?? "nobody";
    for (const asker of [session, "another"]) {
      this.#agree({ do: "agreedHold", token, session: asker }, (now) => this.#rounds.agreed(token, asker, now));
    }
    this.#agree({ do: "prolong", token, leaseMs, askedAt }, (now) =>
      this.#rounds.prolong(token, leaseMs, askedAt, now),
    );
  }
}
