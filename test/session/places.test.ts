import { describe, expect, it } from "vitest";
import type { Effect } from "../../src/core/session/effects.ts";
import type { KeyOutcome } from "../../src/core/session/key-calls.ts";
import { ALL_BUT_ADMIN } from "../../src/core/session/rights.ts";
import { SocketSession } from "../../src/core/session/socket-session.ts";
import { origin, Stored } from "./stored.ts";

type Call = Extract<Effect, { type: "callKey" }>;

const CLIENT = { isAuthenticated: true, rights: ALL_BUT_ADMIN, resumableFrom: "192.0.2.1" };

/** A session, what its client says, what it makes its host do, and what comes of that. */
function opened() {
  const stored = new Stored();
  const session = new SocketSession(origin(stored, { session: "s" }));
  const say = (text: string) => session.received(new TextEncoder().encode(text));
  const effects = () => {
    const taken = session.context.takeEffects();
    for (const effect of taken) stored.take(effect);
    return taken;
  };
  /** The only call that is made. */
  const call = (): Call => {
    const calls = effects().filter((effect): effect is Call => effect.type === "callKey");
    if (calls.length !== 1 || !calls[0]) throw new Error(`${calls.length} calls`);
    return calls[0];
  };
  const answer = ({ call: number }: Call, outcome: KeyOutcome) => session.context.keyAnswered(number, outcome);
  const lose = ({ call: number }: Call) => session.context.keyFailed(number, "lost");
  session.opened(CLIENT);
  return { session, say, effects, call, answer, lose };
}

/** A session that has a place on a key. */
function placed() {
  const socket = opened();
  socket.say("@1 e\nkey\n10\n");
  socket.answer(socket.call(), { status: "queued" });
  socket.effects();
  return socket;
}

describe("a `wait` that is cancelled before its key has answered", () => {
  it("takes its place with it, which the key has to know from the session if the `wait` never arrived", () => {
    const { session, say, call } = placed();
    say("@2 w\nkey\n60\n");
    const wait = call();
    say("@3 cancel\n_\n2\n");
    const cancel = call();
    expect(session.context.mayRepeatCall(wait.call)).toBe(false);
    expect(cancel.ask).toMatchObject({ type: "cancel", placeOf: "s" });
  });

  it("takes its place with it however often the key has to be asked", () => {
    const { session, say, call, lose } = placed();
    say("@2 w\nkey\n60\n");
    call();
    say("@3 cancel\n_\n2\n");
    const cancel = call();
    expect(session.context.mayRepeatCall(cancel.call)).toBe(true);
    lose(cancel);
    session.tick(session.context.timers.next);
    expect(call().ask).toMatchObject({ type: "cancel", placeOf: "s" });
  });

  it("leaves a place alone that was taken after it", () => {
    const { say, call } = placed();
    say("@2 w\nkey\n60\n");
    call();
    say("@3 e\nkey\n10\n");
    call();
    say("@4 cancel\n_\n2\n");
    expect(call().ask).not.toHaveProperty("placeOf");
  });

  it("does not hide a later place from the end of the session if its own answer comes late", () => {
    const { session, say, effects, call, answer } = placed();
    say("@2 w\nkey\n60\n");
    const wait = call();
    say("@3 cancel\n_\n2\n");
    const cancel = call();
    say("@4 e\nkey\n10\n");
    answer(call(), { status: "queued" });
    answer(wait, { status: "queued" });
    answer(cancel, undefined);
    effects();
    session.end();
    expect(call().ask).toMatchObject({ type: "leave" });
  });

  it("leaves a place alone that is taken while it is withdrawn", () => {
    const { session, say, call, lose } = placed();
    say("@2 w\nkey\n60\n");
    call();
    say("@3 cancel\n_\n2\n");
    const cancel = call();
    say("@4 e\nkey\n10\n");
    call();
    // The first attempt came before the new place, and nothing is known of it. Another one would come after it.
    expect(session.context.mayRepeatCall(cancel.call)).toBe(false);
    lose(cancel);
    session.tick(session.context.timers.next);
    expect(call().ask).not.toHaveProperty("placeOf");
  });
});

describe("a request that is cancelled", () => {
  const lines = (effects: readonly Effect[]) =>
    effects.flatMap((effect) => (effect.type === "send" ? effect.line : []));

  it("is answered when its key has confirmed it, however often that has to be asked", () => {
    const { session, say, effects, call, answer, lose } = opened();
    say("@1 l\nkey\n60\n");
    answer(call(), { status: "queued" });
    effects();
    say("@2 cancel\n_\n1\n");
    const first = call();
    lose(first);
    expect(lines(effects())).toEqual([]);
    session.tick(session.context.timers.next);
    const second = effects();
    expect(lines(second)).toEqual([]);
    const again = second.find((effect): effect is Call => effect.type === "callKey");
    if (!again) throw new Error("not asked again");
    answer(again, undefined);
    expect(lines(effects())).toEqual(["@1 cancelled\n", "@2 ok\n"]);
  });

  it("holds back what comes after an untagged `cancel`, and both of two get their answer", () => {
    const { say, effects, answer } = opened();
    const calls = (made: readonly Effect[]) => made.filter((effect): effect is Call => effect.type === "callKey");
    say("@1 l\nkey\n60\n");
    for (const made of calls(effects())) answer(made, { status: "queued" });
    effects();
    say("cancel\n_\n1\nping\n_\n_\n@2 cancel\n_\n1\n");
    const made = effects();
    expect(lines(made)).toEqual([]);
    for (const cancel of calls(made)) answer(cancel, undefined);
    expect(lines(effects())).toEqual(["@1 cancelled\n", "ok\n", "ok\n", "@2 ok\n"]);
  });
});

describe("a `wait` that is granted before its key has answered", () => {
  it("is left at the end, also if a later place has come and gone, and that answer never comes", () => {
    const { session, say, effects, call, answer } = placed();
    say("@2 w\nkey\n60\n");
    const { ask } = call();
    if (ask.type !== "wait") throw new Error(ask.type);
    session.notice(1, { key: "key", request: ask.command.request, kind: "granted" });
    answer(call(), { status: "granted", token: "f".repeat(32), leaseSeconds: 10 });
    effects();
    say("@3 e\nkey\n10\n");
    answer(call(), { status: "queued" });
    effects();
    say("@4 w\nkey\n60\n");
    answer(call(), { status: "queued" });
    effects();
    say("@5 cancel\n_\n4\n");
    answer(call(), undefined);
    effects();
    session.end();
    expect(call().ask).toMatchObject({ type: "leave" });
  });
});

describe("a request that is repeated on another socket", () => {
  it.each(["l\nkey\n60 1\n", "e\nkey\n1\n"])("is left at the end, whatever came of the first one: %j", (text) => {
    const { session, say, effects, call, answer } = opened();
    const token = "f".repeat(32);
    say(`@r session\n_\nresume\n@1 ${text}`);
    const first = call();
    session.detach();
    session.resume(1, true);
    session.opened(CLIENT);
    effects();
    say(`@1 ${text}`);
    answer(call(), { status: "queued" });
    effects();
    // A late answer: this grant has expired before the request was repeated.
    answer(first, { status: "granted", token, leaseSeconds: 1 });
    session.lose({ key: "key", token, reason: "expired" });
    effects();
    session.end();
    expect(call().ask).toMatchObject({ type: "leave" });
  });
});

describe("a request that is repeated, and whose first one has ended meanwhile", () => {
  function repeated() {
    const socket = opened();
    const { session, say, effects, call, answer } = socket;
    say("@r session\n_\nresume\n@1 l\nkey\n3 60\n");
    call();
    session.detach();
    session.resume(1, true);
    session.opened(CLIENT);
    effects();
    say("@1 l\nkey\n3 60\n");
    const made = call();
    answer(made, { status: "queued" });
    // It may have been granted while the client was away.
    answer(call(), { status: "queued" });
    const request = made.ask.type === "acquire" ? made.ask.command.request : "";
    session.notice(1, { key: "key", request, kind: "timeout" });
    return { ...socket, request, pickUp: call() };
  }

  it("goes on waiting if the news of that end comes late", () => {
    const { session, effects, call, answer, request, pickUp } = repeated();
    expect(pickUp.ask.type).toBe("pickUp");
    answer(pickUp, { status: "queued" });
    const done = effects();
    expect(done).toContainEqual({ type: "answerNotice", notice: 1, answer: "later" });
    expect(done.filter(({ type }) => type === "send")).toEqual([]);
    session.notice(2, { key: "key", request, kind: "granted" });
    answer(call(), { status: "granted", token: "f".repeat(32), leaseSeconds: 60 });
    const line = `@1 ok ${"f".repeat(32)} 60\n`;
    expect(effects()).toContainEqual(expect.objectContaining({ type: "send", line }));
  });

  it.each(["timeout", "unknown"] as const)("is over if the key says so: %s", (status) => {
    const { effects, answer, pickUp } = repeated();
    answer(pickUp, { status });
    const done = effects();
    expect(done).toContainEqual({ type: "answerNotice", notice: 1, answer: "taken" });
    expect(done).toContainEqual({ type: "send", line: "@1 timeout\n" });
  });
});

describe("a request that a resumed client has yet to repeat", () => {
  it("is left at the end if its key has granted it", () => {
    const { session, say, effects, call } = opened();
    say("@r session\n_\nresume\n@1 l\nkey\n3 60\n");
    const { ask } = call();
    const request = ask.type === "acquire" ? ask.command.request : "";
    session.detach();
    session.resume(1, true);
    session.opened(CLIENT);
    effects();
    session.notice(1, { key: "key", request, kind: "granted", mayBeTold: true });
    expect(effects()).toContainEqual({ type: "answerNotice", notice: 1, answer: "later" });
    session.end();
    expect(call().ask).toMatchObject({ type: "leave" });
  });
});

describe("a request that is cancelled", () => {
  it.each(["l\nkey\n60\n", "e\nother\n10\n"])("and is no `wait` has no place of another request: %j", (text) => {
    const { say, call } = placed();
    say(`@2 ${text}`);
    call();
    say("@3 cancel\n_\n2\n");
    expect(call().ask).not.toHaveProperty("placeOf");
  });
});

describe("a `wait` whose outcome stays unknown", () => {
  it("leaves its client its place, and a hold that the client may know", () => {
    const { session, say, call, lose } = placed();
    say("@2 w\nkey\n60\n");
    lose(call());
    const cancel = call();
    const spares = { sparesKnown: true, sparesPlace: true };
    expect(cancel.ask).toEqual({ type: "cancel", request: expect.any(String), ...spares });
    lose(cancel);
    session.tick(session.context.timers.next);
    expect(call().ask).toEqual(cancel.ask);
  });

  it("leaves no place once the session has ended, even if the key cannot be left", () => {
    const { session, say, effects, call, lose } = placed();
    say("@2 w\nkey\n60\n");
    lose(call());
    const cancel = call();
    session.end();
    effects();
    lose(cancel);
    session.tick(session.context.timers.next);
    expect(call().ask).toEqual({ type: "cancel", request: expect.any(String), sparesKnown: true, placeOf: "s" });
  });

  it("leaves nothing if its client then cancels it", () => {
    const { say, call, lose } = placed();
    say("@2 w\nkey\n60\n");
    lose(call());
    call();
    say("@3 cancel\n_\n2\n");
    expect(call().ask).toEqual({ type: "cancel", request: expect.any(String), placeOf: "s" });
  });
});

describe("a `wait` that may not wait, and would have to", () => {
  it("keeps its place until the session leaves the key, however long other requests take", () => {
    const { say, effects, call, answer } = placed();
    say("@2 n\nkey\ntoken\n");
    const slow = call();
    say("n\nkey\ntoken\n");
    const first = call();
    say("w\nkey\n60\n");
    say("");
    answer(first, { status: "not_held" });
    answer(call(), { status: "would_wait" });
    for (const effect of effects()) if (effect.type === "callKey") answer(effect, undefined);
    answer(slow, { status: "not_held" });
    expect(call()).toMatchObject({ key: "key", ask: { type: "leave", session: "s" } });
  });
});
