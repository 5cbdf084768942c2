/** A REST release goes straight to the key; its session learns of it with its next request, or a second later. */

import { env, exports } from "cloudflare:workers";
import { afterEach, expect, it, vi } from "vitest";
import { HttpSessionObject } from "../../../src/cloudflare/http-session/http-session-object.ts";
import { httpSessionName } from "../../../src/core/session-names.ts";
import { errorBody } from "../../../src/http/reply/errors.ts";
import { expectLog } from "../../support/expected-logs.ts";
import { callsAbout, replaceCommand, replaceNextCommand } from "../spies.ts";
import { fresh, until } from "../support.ts";

const call = (method: string, path: string, session = "", body?: object) =>
  exports.default.fetch(`http://holdfast${path}`, {
    method,
    headers: { "X-Dflockd-Session": session },
    ...(body && { body: JSON.stringify(body) }),
  });

async function newSession(): Promise<string> {
  const reply = await call("POST", "/v1/sessions");
  return (await reply.json<{ session_id: string }>()).session_id;
}

async function lock(key: string, session: string): Promise<string> {
  const reply = await call("POST", `/v1/locks/${key}`, session, {});
  return (await reply.json<{ token: string }>()).token;
}

const release = (key: string, session: string, token: string) =>
  call("POST", `/v1/locks/${key}/release`, session, { token });

afterEach(() => vi.restoreAllMocks());

it("a release does not call the session, and a session that ends after it does not visit the key", async () => {
  const [session, key] = [await newSession(), fresh("key")];
  const token = await lock(key, session);
  const perform = vi.spyOn(HttpSessionObject.prototype, "perform");
  expect((await release(key, session, token)).status).toBe(204);
  expect(callsAbout(perform, key)).toEqual([]);
  const leaves = replaceCommand("leave");
  expect((await call("DELETE", `/v1/sessions/${session}`, session)).status).toBe(204);
  expect(leaves(key)).toEqual([]);
});

it("the session learns of it with its next request", async () => {
  const [session, key, other] = [await newSession(), fresh("key"), fresh("key")];
  const token = await lock(key, session);
  await release(key, session, token);
  const perform = vi.spyOn(HttpSessionObject.prototype, "perform");
  await lock(other, session);
  expect(callsAbout(perform, session)).toMatchObject([[{ released: [{ key, token }] }]]);
});

it("the session learns of it within about a second when nothing else is asked", async () => {
  const [session, key] = [await newSession(), fresh("key")];
  const token = await lock(key, session);
  const touch = vi.spyOn(HttpSessionObject.prototype, "touch");
  await release(key, session, token);
  await until(() => callsAbout(touch, session).length > 0, { timeout: 3_000, interval: 20 });
  expect(callsAbout(touch, session)).toEqual([[{ released: [{ key, token }] }]]);
  const leaves = replaceCommand("leave");
  expect(await env.HTTP_SESSION.getByName(httpSessionName(session)).end()).toEqual({ wasThere: true });
  expect(leaves(key)).toEqual([]);
});

it("a release that was carried out, and not heard of, is answered as carried out when the session is asked", async () => {
  const [session, key] = [await newSession(), fresh("key")];
  const token = await lock(key, session);
  replaceNextCommand("giveBack", key, async (_, carryOut) => {
    expect(await carryOut()).toEqual({ status: "released" });
    throw new Error("the answer is lost");
  });
  expect((await release(key, session, token)).status).toBe(204);
  expectLog("request_failed", { status: 404, error: "not_held" });
  const again = await release(key, session, token);
  expect(again.status).not.toBe(204);
});

it("a session that does not hold the token answers as ever", async () => {
  const [session, other, key] = [await newSession(), await newSession(), fresh("key")];
  const token = await lock(key, session);
  expectLog("request_failed", { status: 410, error: "session_gone" });
  const nobody = await release(key, "f".repeat(32), token);
  expect([nobody.status, await nobody.text()]).toEqual([410, `${JSON.stringify(errorBody("session_gone"))}\n`]);
  // The token is what counts, as over TCP: another session may release with it.
  expect((await release(key, other, token)).status).toBe(204);
  expectLog("request_failed", { status: 404, error: "not_held" });
  const again = await release(key, session, token);
  expect([again.status, await again.text()]).toEqual([404, `${JSON.stringify(errorBody("not_held"))}\n`]);
});
