import { describe, expect, it } from "vitest";
import type { Effect } from "../../src/core/session/effects.ts";
import { ALL_BUT_ADMIN } from "../../src/core/session/rights.ts";
import { SocketSession } from "../../src/core/session/socket-session.ts";
import { origin, Stored } from "./stored.ts";

const CLIENT = { isAuthenticated: true, rights: ALL_BUT_ADMIN, resumableFrom: "192.0.2.1" };
const TOKEN = "f".repeat(32);

/** A session whose client may come back on another socket. */
function resumable() {
  const stored = new Stored();
  const session = new SocketSession(origin(stored, { session: "s" }));
  /** Says something; the ids of the releases that follow. */
  const say = (text: string) => {
    session.received(new TextEncoder().encode(text));
    return ids(session.context.takeEffects());
  };
  const ids = (effects: readonly Effect[]) => {
    for (const effect of effects) stored.take(effect);
    return effects.flatMap((effect) => {
      if (effect.type !== "callKey" || effect.ask.type !== "release") return [];
      session.context.keyAnswered(effect.call, { status: "released" });
      return [effect.ask.id];
    });
  };
  const comeBack = () => {
    session.loseSocket();
    session.opened(CLIENT);
    return ids(session.context.takeEffects());
  };
  session.opened(CLIENT);
  say("@r session\n_\nresume\n");
  return { say, comeBack };
}

describe("each release has an id, by which its key knows it if it is made again", () => {
  it("a client that releases twice makes two, whatever it calls them", () => {
    const { say } = resumable();
    const frames = [`r\nkey\n${TOKEN}\n`, `r\nkey\n${TOKEN}\n`, `@1 r\nkey\n${TOKEN}\n`, `@2 r\nkey\n${TOKEN}\n`];
    const made = [...frames, `@2 r\nkey\n${TOKEN}\n`].flatMap(say);
    expect(new Set(made).size).toBe(5);
  });

  it("a client that repeats its request on another socket means the same release", () => {
    const { say, comeBack } = resumable();
    const [first] = say(`@1 r\nkey\n${TOKEN}\n`);
    comeBack();
    expect(say(`@1 r\nkey\n${TOKEN}\n`)).toEqual([first]);
  });
});
