import { describe, expect, it } from "vitest";
import type { Effect } from "../../src/session/effects.ts";
import type { KeyRequest } from "../../src/session/key-calls.ts";
import { type Parked, PolledSession } from "../../src/session/polled-session.ts";
import { origin, Stored } from "./stored.ts";

const ACQUIRE: KeyRequest = { type: "acquire", key: "key", limit: 1, waitSeconds: 10, leaseSeconds: 5 };

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
    session.begin("w", { type: "wait", key: "key", waitSeconds: 5 }, { mayWait: true });
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

describe("a session that has ended", () => {
  it("sends nothing that waited for the storage to be checked, and says that it is gone", () => {
    const { session, effects } = opened([], false);
    session.begin("r", ACQUIRE, { mayWait: true });
    expect(effects()).toEqual([{ type: "checkStorage", id: "r" }]);
    session.end();
    effects();
    session.requests.storageChecked("r", true);
    expect(effects()).toEqual([{ type: "reply", id: "r", outcome: "gone" }]);
  });
});

describe("a request that is withdrawn while it is carried out", () => {
  it("is answered: whoever asked does not wait for ever", () => {
    const { session, effects } = opened();
    session.begin("r", ACQUIRE, { mayWait: true });
    effects();
    session.withdraw("r", "key");
    expect(effects()).toMatchObject([
      { type: "reply", id: "r", outcome: "gone" },
      { type: "callKey", ask: { type: "cancel", request: "r" } },
    ]);
  });
});

describe("a request that may not wait, and would have to", () => {
  it("ends without an answer and without a trace at its key", () => {
    const { session, effects, calls } = opened();
    session.begin("r", ACQUIRE, { mayWait: false });
    const [asked] = calls();
    expect(asked?.ask).toMatchObject({ type: "acquire", command: { request: "r", mayWait: false } });
    session.context.keyAnswered(asked?.call ?? 0, { status: "would_wait" });
    expect(effects()).toEqual([{ type: "reply", id: "r", outcome: "would_wait" }]);
  });

  it("may be made again under its id", () => {
    const { session, calls, effects } = opened();
    session.begin("r", ACQUIRE, { mayWait: false });
    session.context.keyAnswered(calls()[0]?.call ?? 0, { status: "would_wait" });
    session.begin("r", ACQUIRE, { mayWait: true });
    session.context.keyAnswered(calls()[0]?.call ?? 0, { status: "queued" });
    expect(effects()).toContainEqual({ type: "park", id: "r", key: "key", wait: "acquire" });
  });
});
