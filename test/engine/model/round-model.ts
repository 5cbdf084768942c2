/** Requests that need a quorum, by the book. */
import type { RoundEnd, RoundOf } from "../../../src/core/engine/index.ts";
import type { KeyModel } from "./key-model.ts";
import { ROUND_MS } from "./model-state.ts";
import { fenceOf, type Hold, isInRound, promotionOf } from "./types.ts";

/** The others keep a lock for this much longer than its lease. */
const OUTLASTS_MS = 1_000;

export class RoundModel {
  readonly #key: KeyModel;
  /** When the fence of a round was minted. */
  readonly #fencedAt = new Map<string, number>();

  constructor(key: KeyModel) {
    this.#key = key;
  }

  /** A round that has its fence is in its last phase: its time is not moved. */
  keep(of: RoundOf, now: number): boolean {
    const hold = this.#find(of, now);
    if (hold?.round !== "open") return false;
    this.#lease(hold, now + ROUND_MS, now);
    return true;
  }

  fence(of: RoundOf, floor: bigint, now: number): bigint | undefined {
    const hold = this.#find(of, now);
    if (hold?.round !== "open") return undefined;
    hold.token = this.#key.mint(now, floor);
    hold.round = "fenced";
    this.#lease(hold, now + ROUND_MS, now);
    this.#fencedAt.set(hold.token, now);
    return this.#key.lastFence;
  }

  /** Never for longer than the others keep the lock, which they count from the fence. */
  agree(of: RoundOf, now: number): boolean {
    const hold = this.#find(of, now);
    if (hold?.round === "agreed") return true;
    const fencedAt = hold && this.#fencedAt.get(hold.token);
    if (hold?.round !== "fenced" || fencedAt === undefined || now > fencedAt + OUTLASTS_MS) return false;
    hold.round = "agreed";
    this.#lease(hold, fencedAt + hold.leaseSeconds * 1000 + OUTLASTS_MS, now);
    this.#key.notices.push(promotionOf(hold));
    return true;
  }

  fail(of: RoundOf, { pauseMs }: RoundEnd, now: number): void {
    const hold = this.#find(of, now);
    if (!hold || !isInRound(hold)) return;
    // The relay knows already.
    hold.round = undefined;
    const waiter = this.#key.stepBack(hold, now);
    if (waiter?.quorum === "once") {
      this.#key.queue = this.#key.queue.filter((other) => other !== waiter);
      this.#key.end(waiter, "refused");
    } else if (waiter && pauseMs > 0) waiter.pausedUntil = now + pauseMs;
    this.#key.promote(now);
  }

  agreed(token: string, session: string, now: number): object | undefined {
    this.#key.evaluate(now);
    const hold = this.#key.holds.find((held) => held.token === token && held.session === session);
    if (hold?.round !== "agreed" || !hold.isReported) return undefined;
    return { fence: BigInt(`0x${fenceOf(hold)}`), remainingMs: hold.expiresAt - now };
  }

  prolong(token: string, leaseMs: number, askedAt: number, now: number): boolean {
    this.#key.evaluate(now);
    const hold = this.#key.holds.find((held) => held.token === token);
    if (hold?.round !== "agreed") return false;
    this.#key.observations.push({ type: "renewed", result: "ok" });
    this.#lease(hold, Math.min(now + leaseMs, askedAt + leaseMs + OUTLASTS_MS), now);
    return true;
  }

  #lease(hold: Hold, until: number, now: number): void {
    hold.expiresAt = until;
    this.#key.touch(now);
  }

  #find({ request, mark }: RoundOf, now: number): Hold | undefined {
    this.#key.evaluate(now);
    return this.#key.holds.find((hold) => hold.request === request && fenceOf(hold) === mark);
  }
}
