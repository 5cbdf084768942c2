import { runInDurableObject } from "cloudflare:test";
import { env, exports } from "cloudflare:workers";
import { expect, it, vi } from "vitest";
import { HttpSessionObject } from "../../../src/cloudflare/http-session/http-session-object.ts";
import { httpSessionName } from "../../../src/core/session-names.ts";
import { callsAbout } from "../spies.ts";
import { fresh, keyStub, rowsWritten } from "../support.ts";

async function send(path: string, session: string, body: object): Promise<Record<string, unknown>> {
  const headers = { "X-Dflockd-Session": session };
  const reply = await exports.default.fetch(`http://holdfast${path}`, {
    method: "POST",
    headers,
    body: JSON.stringify(body),
  });
  const text = await reply.text();
  return text === "" ? {} : (JSON.parse(text) as Record<string, unknown>);
}

it("an uncontended cycle over HTTP writes two rows at the key and, on a key in use, none at the session", async () => {
  const { session_id } = await send("/v1/sessions", "", {});
  const [id, key] = [session_id as string, fresh("key")];
  const cycle = async () => {
    const { token } = await send(`/v1/locks/${key}`, id, {});
    await send(`/v1/locks/${key}/release`, id, { token });
  };
  await cycle();
  const session = env.HTTP_SESSION.getByName(httpSessionName(id));
  await runInDurableObject(session, async (_, state) => {
    let atKey = 0;
    const atSession = await rowsWritten(state, () =>
      runInDurableObject(keyStub(key), async (_, keyState) => {
        atKey = await rowsWritten(keyState, cycle);
      }),
    );
    // When the client was last seen is written down every few seconds at most.
    expect(atKey).toBe(2);
    expect(atSession).toBeLessThanOrEqual(1);
  });
});

it("an acquire over HTTP is one call to the session; only one that waits for more than a moment is two", async () => {
  const sessions = await Promise.all([send("/v1/sessions", "", {}), send("/v1/sessions", "", {})]);
  const [mine = "", theirs = ""] = sessions.map(({ session_id }) => session_id as string);
  const [calls, polls] = [
    vi.spyOn(HttpSessionObject.prototype, "perform"),
    vi.spyOn(HttpSessionObject.prototype, "fetch"),
  ];
  const callsOf = (session: string) => [callsAbout(calls, session).length, callsAbout(polls, session).length];
  const key = fresh("key");
  const acquire = (session: string) => send(`/v1/locks/${key}`, session, { acquire_timeout_s: 10 });
  try {
    const { token } = await acquire(mine);
    expect(callsOf(mine)).toEqual([1, 0]);
    const next = acquire(theirs);
    await vi.waitFor(() => expect(callsOf(theirs)).toEqual([1, 1]));
    await send(`/v1/locks/${key}/release`, mine, { token });
    expect(await next).toMatchObject({ status: "ok" });
    expect(callsOf(theirs)).toEqual([1, 1]);
  } finally {
    calls.mockRestore();
    polls.mockRestore();
  }
});
