import { runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { expect, it, vi } from "vitest";
import { SessionObject } from "../../../src/cloudflare/session/session-object.ts";
import { resumeSession } from "../../../src/cloudflare/transports/session.ts";
import { ENTRY, resumable, resume } from "../resuming.ts";
import { fresh, keyStub, newSession, sessionStub } from "../support.ts";

const SECRET = "0".repeat(32);

it("the session of a new connection has an id of its own, and no name that the world has to agree on", async () => {
  const { client, credential } = await resumable();
  expect(credential.session).toMatch(/^[0-9a-f]{64}$/);
  const name = await runInDurableObject(sessionStub(credential.session), (_, { id }) => id.name);
  expect(name).toBeUndefined();
  expect(await (await resume(credential)).ask("@p ping\n_\n_\n")).toBe("@p ok");
  expect(await client.closed()).toBe(4411);
});

it.each([
  ["of another format", "0".repeat(32)],
  ["that nobody made", "f".repeat(64)],
  ["of another kind of object", keyStub(fresh("key")).id.toString()],
])("a session id %s is a session that is gone, and no object runs for it", async (_, session) => {
  const fetched = vi.spyOn(SessionObject.prototype, "fetch");
  const reply = await resumeSession(env, ENTRY, { session, secret: SECRET });
  expect([reply.status, reply.headers.get("X-Holdfast-Refusal")]).toEqual([503, "session_gone"]);
  expect(fetched.mock.calls.filter(([{ headers }]) => headers.get("X-Holdfast-Resume") === SECRET)).toEqual([]);
  vi.restoreAllMocks();
});

it("a session id that was made and never used is a session that is gone", async () => {
  const reply = await resumeSession(env, ENTRY, { session: newSession(), secret: SECRET });
  expect(reply.headers.get("X-Holdfast-Refusal")).toBe("session_gone");
});
