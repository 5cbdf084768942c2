import { describe, expect, it } from "vitest";
import { AUTH_FAILURE_PAUSE_MS } from "../../src/core/auth/principal.ts";
import { ALL_BUT_ADMIN } from "../../src/core/session/rights.ts";
import { SocketSession } from "../../src/core/session/socket-session.ts";
import { CONFIG, origin, Stored } from "./stored.ts";

const NOW = 1_000_000;

/** A session of a service with a token, whose client has shown no credential yet. */
function unknownClient() {
  const session = new SocketSession(origin(new Stored(), { config: { ...CONFIG, authToken: "secret" }, now: NOW }));
  session.opened({ isAuthenticated: false, rights: ALL_BUT_ADMIN, resumableFrom: undefined });
  session.context.takeEffects();
  return session;
}

/** What the client sees, and when, in milliseconds since the connection was opened. */
function seen(session: SocketSession): [ms: number, what: string][] {
  const { context } = session;
  const sights: [number, string][] = [];
  for (;;) {
    for (let effects = context.takeEffects(); effects.length > 0; effects = context.takeEffects()) {
      for (const effect of effects) {
        if (effect.type === "authenticate") session.authenticated(undefined);
        if (effect.type === "send") sights.push([context.now - NOW, effect.line]);
        if (effect.type === "close") return [...sights, [context.now - NOW, `close ${effect.code}`]];
      }
    }
    context.now = context.timers.next;
    context.timers.run(context.now);
  }
}

describe("a client that is refused hears so after a pause, and is cut off after another one", () => {
  it.each([
    ["shows a wrong token", "auth\n_\nwrong\n"],
    ["shows none first", "ping\n_\n_\n"],
  ])("if it %s", (_, bytes) => {
    const session = unknownClient();
    session.received(new TextEncoder().encode(bytes));
    expect(seen(session)).toEqual([
      [AUTH_FAILURE_PAUSE_MS, "error_auth\n"],
      [2 * AUTH_FAILURE_PAUSE_MS, expect.stringMatching(/^close /)],
    ]);
  });
});
