import { describe, expect, it } from "vitest";
import type { Effect, Notice } from "../../src/core/session/effects.ts";
import { ALL_BUT_ADMIN } from "../../src/core/session/rights.ts";
import { SocketSession } from "../../src/core/session/socket-session.ts";
import { CONFIG, origin, Stored } from "./stored.ts";

const NOW = 1_000_000;
const OFFER = { token: "f".repeat(32), leaseSeconds: 10, at: NOW };

/** A connected session, whose client has asked for a lock and waits for it if `isQueued`. */
function waiting({ isQueued = true, config = CONFIG } = {}) {
  const stored = new Stored();
  const session = new SocketSession(origin(stored, { config, now: NOW }));
  const effects = () => {
    const taken = session.context.takeEffects();
    for (const effect of taken) stored.take(effect);
    return taken;
  };
  session.opened({ isAuthenticated: true, rights: ALL_BUT_ADMIN, resumableFrom: undefined });
  session.received(new TextEncoder().encode("@1 l\nkey\n60 10\n"));
  const call = effects().find((effect): effect is Extract<Effect, { type: "callKey" }> => effect.type === "callKey");
  if (call?.ask.type !== "acquire") throw new Error("nothing was asked");
  if (isQueued) session.context.keyAnswered(call.call, { status: "queued" });
  effects();
  const notice: Notice = { key: "key", request: call.ask.command.request, kind: "granted" };
  /** What the session does when it hears a notice. */
  const hears = (more: Partial<Notice>) => {
    session.notice(1, { ...notice, ...more });
    return effects().flatMap((effect) => {
      if (effect.type === "send") return [effect.line];
      if (effect.type === "callKey") return [effect.ask.type];
      return effect.type === "answerNotice" ? [effect.answer] : [];
    });
  };
  return { session, stored, hears, effects };
}

const TOLD = `@1 ok ${OFFER.token} 10\n`;

describe("a grant that its notice carries", () => {
  it("is told to the client at once, without a call", () => {
    expect(waiting().hears({ offer: OFFER })).toEqual([TOLD, "taken"]);
  });

  it("is told once, however often the notice comes", () => {
    const { hears } = waiting();
    hears({ offer: OFFER });
    expect(hears({ offer: OFFER })).toEqual(["taken"]);
    expect(hears({ mayBeTold: true })).toEqual(["taken"]);
  });

  it.each([
    ["came late", NOW - 1_001],
    ["comes from a clock that is ahead", NOW + 1_001],
  ])("is picked up instead if it %s", (_, at) => {
    expect(waiting().hears({ offer: { ...OFFER, at } })).toEqual(["pickUp"]);
  });

  it("is picked up instead while the request itself is on its way: the key may have ended the first by then", () => {
    expect(waiting({ isQueued: false }).hears({ offer: OFFER })).toEqual(["pickUp"]);
  });
});

describe("a grant is given back", () => {
  it("if its client does not wait for it", () => {
    expect(waiting().hears({ request: "another", offer: OFFER })).toEqual(["gone"]);
  });

  it("if the session has lost its socket and never heard of it", () => {
    const { stored } = waiting();
    const restarted = new SocketSession(origin(stored, { now: NOW }));
    restarted.notice(1, { key: "key", request: "r", kind: "granted", offer: OFFER });
    expect(restarted.context.takeEffects()).toEqual([{ type: "answerNotice", notice: 1, answer: "gone" }]);
  });

  it("if its client has left, also one that may have been told: all it had ends", () => {
    const { session, hears, effects } = waiting();
    session.end();
    effects();
    expect(hears({ mayBeTold: true })).toEqual(["gone"]);
  });
});

describe("a grant that its client may have been told of stays", () => {
  it("if the request is not known any more", () => {
    expect(waiting().hears({ request: "another", mayBeTold: true })).toEqual(["taken"]);
  });

  it("if the session has lost its socket to a fault", () => {
    const { stored } = waiting();
    const restarted = new SocketSession(origin(stored, { now: NOW }));
    restarted.notice(1, { key: "key", request: "r", kind: "granted", mayBeTold: true });
    expect(restarted.context.takeEffects()).toEqual([{ type: "answerNotice", notice: 1, answer: "taken" }]);
  });

  it("if its client has left, and holds outlive their clients", () => {
    const { session, hears, effects } = waiting({ config: { ...CONFIG, autoRelease: false } });
    session.end();
    effects();
    expect(hears({ mayBeTold: true })).toEqual(["taken"]);
  });
});
