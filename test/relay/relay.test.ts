import { describe, expect, it } from "vitest";
import { Ballot } from "../../src/core/group/ballot.ts";
import type { Question, RelayEffect } from "../../src/core/group/effects.ts";
import { orderedNonce, orderOf } from "../../src/core/group/nonces.ts";
import { Presence } from "../../src/core/group/presence.ts";
import { Relay } from "../../src/core/group/relay.ts";

const TURN = { lock: "deploy", request: "r1", mark: "0000000000000001" };

/** One relay, whose peers and key are played by the test. */
class Play {
  now = 1_000;
  readonly relay: Relay;
  readonly #seen: RelayEffect[] = [];

  constructor(peers: readonly string[] = ["p1", "p2"]) {
    const need = Math.floor((peers.length + 1) / 2) + 1;
    this.relay = new Relay({ peers, need, epoch: 7, random: () => 0.5 });
  }

  begin(leaseMs = 5_000): void {
    this.relay.begin({ ...TURN, leaseMs }, this.now);
  }

  effects(): RelayEffect[] {
    this.#seen.push(...this.relay.takeEffects());
    return this.#seen.splice(0);
  }

  /** The questions that were asked since this was last called, as text. */
  asked(): string[] {
    return this.effects().map((effect) => {
      if (effect.type !== "send") return effect.type;
      const { type, ...rest } = effect.question;
      this.#last.set(`${effect.peer} ${type}`, effect.question);
      return `${effect.peer} ${type}${"timeoutMs" in rest ? ` ${rest.timeoutMs}` : ""}`;
    });
  }

  readonly #last = new Map<string, Question>();

  /** A peer's answer to the last question of this kind. */
  hear(peer: string, asked: "prop" | "sched" | "comm", status: number, floor?: bigint): void {
    const nonce = this.#last.get(`${peer} ${asked}`)?.nonce ?? "";
    const type = ({ prop: "stat", sched: "ack", comm: "conf" } as const)[asked];
    this.relay.heard(peer, { type, nonce, status, ...(floor !== undefined && { floor }) } as never, this.now);
  }

  /** A round up to its grant, with p1's agreement. */
  agree(): void {
    this.begin();
    this.asked();
    this.hear("p1", "prop", 0);
    this.asked();
    this.hear("p1", "sched", 0);
    this.asked();
    this.relay.fenced(TURN, 16n, this.now);
    this.asked();
    this.hear("p1", "comm", 0);
    this.asked();
    this.relay.agreed({ ...TURN, mark: FENCED }, true, this.now);
  }
}

const FENCED = "0000000000000010";

describe("a round", () => {
  it("asks three questions, each of those who agreed to the one before, and goes on with a majority", () => {
    const play = new Play();
    play.begin();
    expect(play.asked()).toEqual(["p1 prop", "p2 prop"]);
    play.hear("p1", "prop", 0, 40n);
    expect(play.asked()).toEqual(["p1 sched"]);
    play.hear("p1", "sched", 0);
    expect(play.effects()).toEqual([{ type: "fence", ...TURN, floor: 40n }]);
    play.relay.fenced(TURN, 16n, play.now);
    expect(play.asked()).toEqual(["p1 comm 6000"]);
    play.hear("p1", "comm", 0);
    expect(play.effects()).toEqual([{ type: "agree", ...TURN, mark: FENCED }]);
  });

  it("fails as soon as a majority cannot be had, and is called off where it was agreed to", () => {
    const play = new Play(["p1", "p2", "p3", "p4"]);
    play.begin();
    play.asked();
    play.hear("p1", "prop", 0);
    play.hear("p2", "prop", 2, 9n);
    play.relay.unreachable("p3", play.now);
    expect(play.asked()).toEqual([]);
    play.relay.unreachable("p4", play.now);
    const [off, fail] = play.effects();
    expect(off).toMatchObject({ type: "send", peer: "p1", question: { type: "off" } });
    expect(fail).toMatchObject({ type: "fail", end: { status: "refused", fence: 9n, pauseMs: 100 } });
  });

  it("fails when a phase has lasted a second, and knows silence from refusal", () => {
    const play = new Play();
    play.begin();
    play.asked();
    expect(play.relay.nextWake).toBe(2_000);
    play.now = 1_999;
    play.relay.tick(play.now);
    expect(play.effects()).toEqual([]);
    play.now = 2_000;
    play.relay.tick(play.now);
    expect(play.effects()).toMatchObject([{ type: "fail", end: { status: "no_quorum", fence: 0n } }]);
  });

  it("asks a peer that agrees late the question of the phase that is running", () => {
    const play = new Play(["p1", "p2", "p3", "p4"]);
    play.begin();
    play.asked();
    play.hear("p1", "prop", 0);
    play.hear("p2", "prop", 0);
    expect(play.asked()).toEqual(["p1 sched", "p2 sched"]);
    play.now += 500;
    play.hear("p3", "prop", 0);
    expect(play.asked()).toEqual(["p3 sched"]);
    play.hear("p1", "sched", 0);
    play.hear("p3", "sched", 0);
    play.relay.fenced(TURN, 16n, play.now);
    expect(play.asked()).toEqual(["fence", "p1 comm 6000", "p3 comm 6000"]);
    play.now += 300;
    play.hear("p2", "sched", 0);
    expect(play.asked()).toEqual(["p2 comm 5700"]);
  });

  it("commits a peer that agrees after the grant for what is left of it, and calls off one that is too late", () => {
    const play = new Play(["p1", "p2"]);
    play.agree();
    play.now += 600;
    play.hear("p2", "prop", 0);
    expect(play.asked()).toEqual(["p2 comm 5400"]);
    const late = new Play();
    late.agree();
    late.now += 1_001;
    late.hear("p2", "prop", 0);
    expect(late.asked()).toEqual(["p2 off"]);
  });

  it("is abandoned when the key has given it up", () => {
    const play = new Play();
    play.begin();
    play.asked();
    play.hear("p1", "prop", 0);
    play.asked();
    play.hear("p1", "sched", 0);
    play.asked();
    play.relay.fenced(TURN, undefined, play.now);
    expect(play.asked()).toEqual(["p1 off"]);
  });

  it("tells the key that it goes on when a phase has taken its time", () => {
    const play = new Play();
    play.begin();
    play.asked();
    play.now += 700;
    play.hear("p1", "prop", 0);
    expect(play.asked()).toEqual(["keep", "p1 sched"]);
    play.relay.kept(TURN, false, play.now);
    expect(play.asked()).toEqual(["p1 off"]);
  });

  it("is not disturbed by an earlier one that arrives after it", () => {
    const play = new Play();
    play.agree();
    play.relay.begin({ ...TURN, mark: "0000000000000000", leaseMs: 5_000 }, play.now);
    expect(play.effects()).toEqual([]);
  });

  it("needs nobody where there is nobody", () => {
    const play = new Play([]);
    play.begin();
    expect(play.asked()).toEqual(["fence"]);
  });
});

describe("a lock that a majority has agreed to", () => {
  it("is given up where it is held, once", () => {
    const play = new Play();
    play.agree();
    play.relay.over({ ...TURN, mark: FENCED }, play.now);
    expect(play.asked()).toEqual(["p1 off"]);
  });

  it("is given up everywhere if the relay does not know where it is held", () => {
    const play = new Play();
    play.relay.over({ ...TURN, mark: FENCED }, play.now);
    expect(play.asked()).toEqual(["p1 off", "p2 off"]);
  });

  it("is prolonged where it is held, by a majority or not at all", () => {
    const play = new Play();
    play.agree();
    play.relay.prolong({ lock: "deploy", call: "c1", fence: 16n, commitMs: 61_000 }, play.now);
    expect(play.asked()).toEqual(["p1 comm 61000"]);
    play.hear("p1", "comm", 1);
    expect(play.effects()).toEqual([{ type: "prolonged", call: "c1", isAgreed: false }]);
    play.relay.prolong({ lock: "deploy", call: "c2", fence: 16n, commitMs: 61_000 }, play.now);
    play.asked();
    play.hear("p1", "comm", 0);
    expect(play.effects()).toEqual([{ type: "prolonged", call: "c2", isAgreed: true }]);
  });
});

it("a wish to prolong a hold that has ended does not touch the one after it", () => {
  const play = new Play();
  play.agree();
  play.relay.prolong({ lock: "deploy", call: "c1", fence: 15n, commitMs: 1_000 }, play.now);
  expect(play.effects()).toEqual([{ type: "prolonged", call: "c1", isAgreed: false }]);
  play.relay.begin({ ...TURN, request: "r2", mark: "0000000000000020", leaseMs: 5_000 }, play.now);
  play.asked();
  play.relay.prolong({ lock: "deploy", call: "c2", fence: 16n, commitMs: 1_000 }, play.now);
  expect(play.effects()).toEqual([{ type: "prolonged", call: "c2", isAgreed: false }]);
});

describe("a ballot", () => {
  it("is refused only if a majority was heard and one of them said no", () => {
    const refused = new Ballot(2);
    refused.asked("p1", "prop");
    refused.answered("p1", "prop", 1, 5n);
    expect(refused.refusal()).toEqual({ status: "refused", fence: 5n });
    const noQuorum = new Ballot(2);
    noQuorum.asked("p1", "prop");
    noQuorum.answered("p1", "prop", 3, 5n);
    expect(noQuorum.refusal()).toEqual({ status: "no_quorum", fence: 0n });
    const fewHeard = new Ballot(3);
    fewHeard.asked("p1", "prop");
    fewHeard.answered("p1", "prop", 2, 5n);
    expect(fewHeard.refusal()).toEqual({ status: "no_quorum", fence: 0n });
  });
});

describe("nonces", () => {
  it("rise with every question, and with every life of a relay", () => {
    const orders = [orderedNonce(1, 9), orderedNonce(1, 10), orderedNonce(2, 1)].map((nonce) => orderOf(nonce) ?? 0n);
    expect(orders).toEqual(orders.toSorted((a, b) => (a < b ? -1 : 1)));
    for (const foreign of ["a", "1-", "-1", "1-2-3", "1.5-2"]) expect(orderOf(foreign)).toBeUndefined();
  });
});

describe("presence", () => {
  it("lasts ten seconds from the last line of a peer", () => {
    const presence = new Presence(["p1", "p2", "p3", "p4"], 3);
    presence.heard("p1", 0);
    presence.heard("p2", 5_000);
    expect(presence.seesQuorum(10_000)).toBe(true);
    expect(presence.seesQuorum(10_001)).toBe(false);
    expect(presence.missing(10_001)).toEqual(["p1", "p3", "p4"]);
  });
});
