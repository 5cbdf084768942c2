/** What other deployments hold, by the book. */
import type { RelayAnswer, RelayQuestion } from "../../../src/core/engine/index.ts";
import type { KeyModel } from "./key-model.ts";
import { fenceOf, type Hold, type Seen, tagOf } from "./types.ts";

const KIND = "relay";
const PRELIMINARY_MS = 1_000;

interface Note {
  readonly order?: string;
  readonly fence?: string;
}

export class RelayModel {
  readonly #key: KeyModel;

  constructor(key: KeyModel) {
    this.#key = key;
  }

  ask(question: RelayQuestion, now: number, seen: Seen): RelayAnswer {
    if (question.type === "propose") this.#key.arrive(1, now, seen);
    else this.#key.evaluate(now);
    const floor = this.#key.lastFence;
    return { status: this.#answer(question, now), floor };
  }

  /** 0 if another deployment has the lock and did not say by which fence. */
  fenceOfHolder(now: number): bigint | undefined {
    this.#key.evaluate(now);
    const newest = byNewest(this.#key.holds.filter(({ isReported }) => isReported)).at(0);
    if (!newest) return undefined;
    return BigInt(isOfRelay(newest) ? (noteOf(newest).fence ?? 0) : `0x${fenceOf(newest)}`);
  }

  #answer(question: RelayQuestion, now: number): RelayAnswer["status"] {
    const { limit, holds } = this.#key;
    const theirs = holds.find(isOfRelay);
    if (question.type === "propose" && (limit !== 1 || (holds.length > 0 && !theirs))) {
      this.#key.want();
      const newest = byNewest(holds).at(0);
      if (newest) newest.isWantedByPeer = true;
      return "held";
    }
    if (question.type === "propose" && !theirs) return this.#propose(question, now);
    if (!theirs) return "not_held";
    if (theirs.sessionless?.mark !== question.relay || isOvertaken(question, noteOf(theirs))) return "held_for_another";
    this.#change(theirs, question, now);
    return "agreed";
  }

  /** Even if others wait for the slot. */
  #propose({ relay, order }: RelayQuestion, now: number): "agreed" {
    const name = `${KIND}:${relay}`;
    const sessionless = { kind: KIND, mark: relay, tag: relay, note: noteText({ order }) };
    const request = { session: name, request: name, leaseSeconds: PRELIMINARY_MS / 1000, sessionless };
    this.#key.grant(request, now, { isReported: false });
    return "agreed";
  }

  #change(hold: Hold, question: RelayQuestion, now: number): void {
    const { type, order } = question;
    if (type === "withdraw" && hold.isReported) return;
    if (type === "off" || type === "withdraw") {
      this.#key.free(hold, hold.isReported ? "released" : "gone", now);
      this.#key.promote(now);
      return;
    }
    let { fence } = noteOf(hold);
    if (type === "commit") {
      if (question.fence !== undefined) {
        fence = question.fence.toString();
        if (question.fence > this.#key.lastFence) this.#refence(hold, question.fence, now);
      }
      this.#commit(hold, question.leaseMs, now);
    } else if (!hold.isReported) {
      hold.expiresAt = now + PRELIMINARY_MS;
      this.#key.touch(now);
    }
    if (hold.sessionless) hold.sessionless = { ...hold.sessionless, note: noteText({ order, fence }) };
  }

  /** A client there that had the lock by the old fence has it no longer. */
  #refence(hold: Hold, fence: bigint, now: number): void {
    if (hold.isReported) {
      const holdMs = Math.max(0, now - hold.since);
      this.#key.observations.push({ type: "ended", fence: fenceOf(hold), reason: "released", holdMs });
      this.#key.grants.push(hold);
      this.#key.endings += 1;
      hold.isReported = false;
    }
    hold.token = this.#key.tokenWith(fence);
  }

  #commit(hold: Hold, leaseMs: number, now: number): void {
    if (!hold.isReported) {
      const granted = { session: hold.session, fence: fenceOf(hold), at: now, waitMs: 0 };
      this.#key.observations.push({ type: "granted", how: "immediate", ...granted, ...tagOf(hold) });
      hold.isReported = true;
      hold.since = now;
    }
    hold.leaseSeconds = leaseMs / 1000;
    hold.expiresAt = now + leaseMs;
    this.#key.touch(now);
  }
}

const byNewest = (holds: readonly Hold[]): Hold[] => [...holds].sort((a, b) => (a.token < b.token ? 1 : -1));

const isOfRelay = ({ sessionless }: Hold): boolean => sessionless?.kind === KIND;

function isOvertaken(question: RelayQuestion, { order, fence }: Note): boolean {
  if (question.order !== undefined && order !== undefined && question.order < BigInt(order)) return true;
  if (question.type !== "commit" || question.fence === undefined) return false;
  return fence !== undefined && question.fence < BigInt(fence);
}

const noteOf = ({ sessionless }: Hold): Note => JSON.parse(sessionless?.note ?? "{}") as Note;

/** As it is stored. */
function noteText({ order, fence }: { order?: bigint | undefined; fence?: string | undefined }): string {
  return JSON.stringify({ order: order?.toString(), fence });
}
