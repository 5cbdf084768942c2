import { describe, expect, it } from "vitest";
import type { Effect } from "../../src/core/session/effects.ts";
import type { KeyOutcome, KeyRequest } from "../../src/core/session/key-calls.ts";
import { type Parked, PolledSession } from "../../src/core/session/polled-session.ts";
import { origin, Stored } from "./stored.ts";

const ACQUIRE: KeyRequest = { type: "acquire", key: "key", limit: 1, waitSeconds: 10, leaseSeconds: 5 };

const ENQUEUE: KeyRequest = { type: "enqueue", key: "key", limit: 1, leaseSeconds: 5 };
const WAIT: KeyRequest = { type: "wait", key: "key", waitSeconds: 5 };

/** An open session, and what it makes its host do. */
function opened(parked: readonly Parked[] = [], isStorageWell = true) {
  const stored = new Stored();
  stored.take({ type: "put", name: "life", value: { address: "192.0.2.1", label: undefined, seenAt: 0 } });
  const session = new PolledSession(origin(stored, { isStorageWell: () => isStorageWell }), parked);
  const effects = () => {
    const taken = session.context.takeEffects();
    for (const effect of taken) stored.take(effect);
    return taken;
  };
  const calls = () =>
    effects().filter((effect): effect is Extract<Effect, { type: "callKey" }> => effect.type === "callKey");
  return { session, effects, calls };
}

describe("the end of a poll", () => {
  const poll = { id: "r", key: "key", type: "acquire" } as const;

  it.each([
    ["a grant that arrived stays", "grant", true, []],
    ["a grant that did not arrive is withdrawn", "grant", false, ["cancel"]],
    ["a refusal needs nothing", "refusal", false, []],
    ["a wait without an answer is withdrawn", "nothing", false, ["cancel"]],
  ] as const)("is understood also by an object that it wakes: %s", (_, told, isDelivered, asked) => {
    const { session, calls } = opened();
    session.pollClosed({ ...poll, told }, isDelivered);
    expect(calls().map(({ ask }) => ask.type)).toEqual(asked);
  });
});

describe("a wait that has timed out", () => {
  it("is over once its client has been told, even if the key asks again: the place does not stay", () => {
    const { session, calls, effects } = opened();
    session.begin("w", WAIT);
    session.context.keyAnswered(calls()[0]?.call ?? 0, { status: "queued" });
    const notice = { key: "key", request: "w", kind: "timeout", hasPlace: true } as const;
    const hears = (number: number) => {
      session.notice(number, notice, true);
      return effects().find(({ type }) => type === "answerNotice");
    };
    expect(hears(1)).toMatchObject({ answer: "taken" });
    session.pollClosed({ id: "w", key: "key", type: "wait", told: "refusal" }, true);
    expect(hears(2)).toMatchObject({ answer: "taken" });
    // Of another one it is not known whether its client was told: a restart may have cut it off.
    session.notice(3, { ...notice, request: "before the restart" }, true);
    expect(effects()).toContainEqual({ type: "answerNotice", notice: 3, answer: "noted" });
  });
});

describe("while nothing can be stored", () => {
  it.each([ACQUIRE, ENQUEUE])(
    "a request that would store something new is refused, and no key is asked: %o",
    (request) => {
      const { session, effects } = opened([], false);
      session.begin("r", request);
      expect(effects()).toEqual([{ type: "reply", id: "r", outcome: { status: "unavailable" } }]);
    },
  );

  it.each<KeyRequest>([
    WAIT,
    { type: "renew", key: "key", token: "t", leaseSeconds: 5 },
    { type: "release", key: "key", token: "t" },
  ])("a request about what is stored already is carried out: %o", (request) => {
    const { session, calls } = opened([], false);
    session.begin("r", request);
    expect(calls().map(({ ask }) => ask.type)).toEqual([request.type]);
  });
});

describe("a request that is withdrawn while it is carried out", () => {
  it("is answered: whoever asked does not wait for ever", () => {
    const { session, effects } = opened();
    session.begin("r", ACQUIRE);
    effects();
    session.withdraw("r", "key", { hasLeft: false });
    expect(effects()).toMatchObject([
      { type: "reply", id: "r", outcome: "gone" },
      { type: "callKey", ask: { type: "cancel", request: "r" } },
    ]);
  });
});

describe("a request that is polled for twice at once", () => {
  it("is answered to the first poll; the second is told that there is nothing to wait for", () => {
    const { session, calls, effects } = opened();
    session.begin("r", ACQUIRE);
    session.context.keyAnswered(calls()[0]?.call ?? 0, { status: "queued" });
    session.context.now += 250;
    session.tick(session.context.now);
    effects();
    session.poll("r");
    session.poll("r");
    expect(effects()).toMatchObject([{ type: "park" }, { type: "reply", outcome: "lost" }]);
    const offer = { token: "0".repeat(32), leaseSeconds: 5, at: session.context.now };
    session.notice(1, { key: "key", request: "r", kind: "granted", offer }, true);
    expect(effects()).toMatchObject([{ type: "tell", outcome: { status: "ok" } }, { answer: "taken" }]);
  });
});

describe("a `wait` whose client hangs up", () => {
  const HANGS_UP = { hasLeft: true };
  const ENDS_PLACE = { type: "cancel", request: "w", sparesKnown: true, placeOf: "s" };
  const ENDS_ITSELF = { type: "cancel", request: "w", sparesKnown: true };

  it("takes its place with it, though not a hold that the client knows from its `enqueue`", () => {
    const { session, calls } = opened();
    session.begin("w", WAIT);
    calls();
    session.withdraw("w", "key", HANGS_UP);
    expect(calls().map(({ ask }) => ask)).toEqual([ENDS_PLACE]);
  });

  it("takes its place with it however often the key has to be asked", () => {
    const { session, calls } = opened();
    session.begin("w", WAIT);
    calls();
    session.withdraw("w", "key", HANGS_UP);
    session.context.keyFailed(calls()[0]?.call ?? 0, "lost");
    session.tick(session.context.timers.next);
    expect(calls().map(({ ask }) => ask)).toEqual([ENDS_PLACE]);
  });

  it("leaves its place if it is withdrawn for another reason", () => {
    const { session, calls } = opened();
    session.begin("w", WAIT);
    calls();
    session.withdraw("w", "key", { hasLeft: false });
    expect(calls().map(({ ask }) => ask)).toEqual([{ ...ENDS_ITSELF, sparesPlace: true }]);
  });

  it("leaves a place that the session leaves when it ends", () => {
    const { session, calls } = opened();
    const answer = (outcome: KeyOutcome) => session.context.keyAnswered(calls()[0]?.call ?? 0, outcome);
    session.begin("e", ENQUEUE);
    answer({ status: "queued" });
    session.begin("w", WAIT);
    answer({ status: "queued" });
    session.withdraw("w", "key", { hasLeft: false });
    answer(undefined);
    session.end();
    expect(calls()).toMatchObject([{ key: "key", ask: { type: "leave" } }]);
  });

  it.each([ENQUEUE, WAIT])("leaves the place to a later request: %o", (later) => {
    const { session, calls } = opened();
    session.begin("w", WAIT);
    calls();
    session.withdraw("w", "key", HANGS_UP);
    const [cancel] = calls();
    session.begin("later", later);
    calls();
    // The first attempt came before the later request, and nothing is known of it. Another one would come after it.
    expect(session.context.mayRepeatCall(cancel?.call ?? 0)).toBe(false);
    session.context.keyFailed(cancel?.call ?? 0, "lost");
    session.tick(session.context.timers.next);
    expect(calls().map(({ ask }) => ask)).toEqual([ENDS_ITSELF]);
  });

  it("takes a place with it that dates from before a restart, and no other", () => {
    const { session, calls } = opened();
    session.withdraw("w", "key", HANGS_UP);
    expect(calls().map(({ ask }) => ask)).toEqual([ENDS_PLACE]);
    session.begin("e", ENQUEUE);
    session.context.keyAnswered(calls()[0]?.call ?? 0, { status: "queued" });
    session.withdraw("w2", "key", HANGS_UP);
    expect(calls().map(({ ask }) => ask)).toEqual([{ ...ENDS_ITSELF, request: "w2" }]);
  });

  it("does not keep what it is granted in that moment, nor its place if its time is over", () => {
    for (const kind of ["granted", "timeout"] as const) {
      const { session, calls, effects } = opened();
      session.begin("w", WAIT);
      session.context.keyAnswered(calls()[0]?.call ?? 0, { status: "queued" });
      const notice = { key: "key", request: "w", kind, hasPlace: true } as const;
      // Its poll is closing.
      session.notice(1, notice, false);
      expect(effects()).toContainEqual({ type: "answerNotice", notice: 1, answer: "gone" });
      session.pollClosed({ id: "w", key: "key", type: "wait", told: "nothing" }, false);
      session.notice(2, notice, true);
      expect(effects()).toContainEqual({ type: "answerNotice", notice: 2, answer: "gone" });
    }
  });
});

describe("two `wait`s on one key", () => {
  const REFUSED = { type: "reply", id: "second", outcome: { status: "not_enqueued" } } as const;

  it("do not both go to the key while it may not have heard of the first: that may be made again", () => {
    const { session, calls, effects } = opened();
    session.begin("first", WAIT);
    const [first] = calls();
    session.begin("second", WAIT);
    expect(effects()).toEqual([REFUSED]);
    expect(session.context.mayRepeatCall(first?.call ?? 0)).toBe(true);
  });

  it("both go to the key if another place may have been taken in between: then the first is not made again", () => {
    const { session, calls } = opened();
    session.begin("first", WAIT);
    const [first] = calls();
    session.begin("place", ENQUEUE);
    session.begin("second", WAIT);
    expect(calls().map(({ ask }) => ask.type)).toEqual(["enqueue", "wait"]);
    expect(session.context.mayRepeatCall(first?.call ?? 0)).toBe(false);
  });

  it("leave the place to the second if the first comes late, overtaken by its own withdrawal", () => {
    const { session, calls } = opened();
    session.withdraw("first", "key", { hasLeft: true });
    const [withdrawal] = calls();
    session.begin("first", WAIT);
    session.begin("place", ENQUEUE);
    session.begin("second", WAIT);
    calls();
    session.context.keyAnswered(withdrawal?.call ?? 0, undefined);
    expect(calls().map(({ ask }) => ask)).toMatchObject([
      { type: "wait", command: expect.not.objectContaining({ takesOver: true }) },
    ]);
  });

  it("both go to the key if it has the first: it refuses one", () => {
    const { session, calls, effects } = opened();
    session.begin("first", WAIT);
    session.context.keyAnswered(calls()[0]?.call ?? 0, { status: "queued" });
    effects();
    session.begin("second", WAIT);
    session.context.keyAnswered(calls()[0]?.call ?? 0, { status: "not_enqueued" });
    expect(effects()).toEqual([REFUSED]);
  });
});

describe("a request whose outcome stays unknown", () => {
  it("is answered, and withdrawn until its key has heard of it", () => {
    const { session, effects, calls } = opened();
    session.begin("r", ACQUIRE);
    session.context.keyFailed(calls()[0]?.call ?? 0, "lost");
    session.context.keyFailed(calls()[0]?.call ?? 0, "lost");
    expect(effects()).toContainEqual({ type: "reply", id: "r", outcome: { status: "unavailable" } });
    session.context.now += 200;
    session.tick(session.context.now);
    expect(calls().map(({ ask }) => ask)).toMatchObject([{ type: "cancel", request: "r" }]);
  });
});

describe("a request that has to wait", () => {
  /** It is in the queue of its key, and `ms` have passed. */
  function waiting(ms = 0) {
    const host = opened();
    const { session, calls, effects } = host;
    session.begin("r", ACQUIRE);
    session.context.keyAnswered(calls()[0]?.call ?? 0, { status: "queued" });
    effects();
    const pass = (time: number) => {
      session.context.now += time;
      session.tick(session.context.now);
    };
    pass(ms);
    const grant = () => {
      const offer = { token: "0".repeat(32), leaseSeconds: 5, at: session.context.now };
      session.notice(1, { key: "key", request: "r", kind: "granted", offer }, true);
    };
    return { ...host, pass, grant };
  }
  const REPLY = { type: "reply", id: "r", outcome: { status: "ok" } } as const;
  const WAITS = { type: "reply", id: "r", outcome: "waits" } as const;
  const LOST = { type: "reply", id: "r", outcome: "lost" } as const;
  const PARK = { type: "park", id: "r", key: "key", wait: "acquire" } as const;
  const CANCEL = { type: "callKey", ask: expect.objectContaining({ type: "cancel", request: "r", sparesKnown: true }) };
  const TAKEN = { type: "answerNotice", notice: 1, answer: "taken" } as const;

  it("is answered in its call if its turn comes soon, and then is over", () => {
    const { session, effects, pass, grant } = waiting(249);
    grant();
    expect(effects()).toMatchObject([REPLY, TAKEN]);
    pass(60_000);
    expect(effects()).toEqual([]);
    expect(session.isBusy).toBe(false);
  });

  it("is polled for if its turn does not come soon, and the poll confirms the answer", () => {
    const { session, effects, grant } = waiting(250);
    expect(effects()).toEqual([WAITS]);
    session.poll("r");
    expect(effects()).toEqual([PARK]);
    grant();
    expect(effects()).toMatchObject([{ type: "tell", id: "r", outcome: { status: "ok" } }, TAKEN]);
    session.pollClosed({ id: "r", key: "key", type: "acquire", told: "grant" }, true);
    expect(effects().map(({ type }) => type)).toEqual(["wake"]);
  });

  it("keeps an answer that comes just before the poll", () => {
    const { session, effects, grant, pass } = waiting(250);
    effects();
    grant();
    expect(effects()).toEqual([TAKEN]);
    expect(session.isBusy).toBe(true);
    session.poll("r");
    expect(effects()).toMatchObject([REPLY]);
    pass(60_000);
    expect(effects()).toEqual([]);
  });

  it.each(["waits", "has been granted the lock"])("and %s is withdrawn if the poll does not come", (fate) => {
    const { effects, grant, pass } = waiting(250);
    if (fate !== "waits") grant();
    effects();
    pass(4_999);
    expect(effects()).toEqual([]);
    pass(1);
    expect(effects()).toMatchObject([CANCEL]);
  });

  it.each([
    ["is withdrawn", (session: PolledSession) => session.withdraw("r", "key", { hasLeft: false }), CANCEL],
    ["ends with its session", (session: PolledSession) => session.end(), { type: "ended" }],
  ])("and %s before its call has returned is answered: whoever asked does not wait for ever", (_, end, effect) => {
    const { session, effects, pass } = waiting();
    end(session);
    const taken = effects();
    expect(taken).toContainEqual({ type: "reply", id: "r", outcome: "gone" });
    expect(taken).toContainEqual(expect.objectContaining(effect));
    pass(250);
    expect(effects()).not.toContainEqual(WAITS);
  });

  it("is lost to a poll that comes when the session has forgotten it, or is withdrawing it", () => {
    const { session, effects } = opened();
    session.poll("r");
    expect(effects()).toEqual([LOST]);
    const other = waiting(250);
    other.session.withdraw("r", "key", { hasLeft: false });
    other.effects();
    other.session.poll("r");
    expect(other.effects()).toEqual([LOST]);
  });

  it("is told in its call that its time has run out", () => {
    const { session, effects } = waiting();
    session.context.now += 10_000;
    session.notice(1, { key: "key", request: "r", kind: "timeout" }, true);
    expect(effects()).toContainEqual({ type: "reply", id: "r", outcome: { status: "timeout" } });
  });
});
