/** What a sleeping object does not change for those who wait over HTTP. */
import { evictDurableObject } from "cloudflare:test";
import { exports } from "cloudflare:workers";
import { expect, it } from "vitest";
import { fresh, keyStub, sessionsOn, until } from "../support.ts";

interface Answer {
  readonly status: number;
  readonly body: Record<string, unknown>;
}

async function post(path: string, session?: string, body?: object): Promise<Answer> {
  const reply = await exports.default.fetch(`http://holdfast${path}`, {
    method: "POST",
    headers: session === undefined ? {} : { "X-Dflockd-Session": session },
    ...(body && { body: JSON.stringify(body) }),
  });
  const text = await reply.text();
  return { status: reply.status, body: text === "" ? {} : JSON.parse(text) };
}

async function newSession(): Promise<string> {
  return (await post("/v1/sessions")).body.session_id as string;
}

it("a poll is granted within two seconds though its key had been put to sleep [HC128]", async () => {
  const [s, s2, k] = [await newSession(), await newSession(), fresh("key")];
  const held = await post(`/v1/locks/${k}`, s, { acquire_timeout_s: 0 });
  expect(held).toEqual({ status: 200, body: { status: "ok", token: expect.any(String), lease_ttl_s: 33 } });
  const polling = post(`/v1/locks/${k}`, s2, { acquire_timeout_s: 60 });
  await until(async () => (await sessionsOn(k)).length === 2, { timeout: 3_000, interval: 10 });
  await evictDurableObject(keyStub(k));
  const releasedAt = performance.now();
  const released = await post(`/v1/locks/${k}/release`, s, { token: held.body.token });
  expect(released).toEqual({ status: 204, body: {} });
  const granted = await polling;
  expect(performance.now() - releasedAt).toBeLessThanOrEqual(2_000);
  expect(granted).toEqual({ status: 200, body: { status: "ok", token: expect.any(String), lease_ttl_s: 33 } });
  expect(String(granted.body.token) > String(held.body.token)).toBe(true);
});
