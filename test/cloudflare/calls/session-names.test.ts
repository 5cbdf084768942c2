import { env } from "cloudflare:workers";
import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { isShared, newSocketSession, objectNameOf } from "../../../src/cloudflare/calls/session-names.ts";
import { newSessionId, ownerIdOf } from "../../../src/core/session-names.ts";
import { pass, stopClock } from "../clock.ts";

const SELF_HOSTED = { ...env, SELF_HOSTED: "true" };
const TCP = { transport: "tcp" };
const open = (entry: Parameters<typeof newSocketSession>[1] = TCP) => newSocketSession(SELF_HOSTED, entry);
const objectOfNext = (entry?: Parameters<typeof newSocketSession>[1]) => objectNameOf(open(entry));

let stories = 0;

beforeEach(() => {
  stopClock();
  // An object of another test takes no more sessions then.
  stories += 1;
  pass(stories * 3_600_000);
});
afterEach(() => {
  vi.useRealTimers();
});

it("on Cloudflare every session has an object to itself, named after it", () => {
  for (let count = 0; count < 100; count += 1) {
    const session = newSocketSession(env, TCP);
    expect(session).toMatch(/^[0-9a-f]{32}$/);
    expect(objectNameOf(session)).toBe(session);
  }
});

it("self-hosted, four sessions share an object, and each has an id and a number of its own", () => {
  const sessions = Array.from({ length: 64 }, () => open());
  for (const session of sessions) expect(session).toMatch(/^[0-9a-f]{32}$/);
  expect(new Set(sessions).size).toBe(64);
  expect(new Set(sessions.map(ownerIdOf)).size).toBe(64);
  const counts = new Map<string, number>();
  for (const object of sessions.map(objectNameOf)) counts.set(object, (counts.get(object) ?? 0) + 1);
  expect([...counts.keys()].every(isShared)).toBe(true);
  expect([...counts.values()]).toEqual(Array.from({ length: 16 }, () => 4));
});

it("an object takes sessions for five seconds, whatever is done to the clock", () => {
  pass(5_000);
  const first = objectOfNext();
  pass(4_999);
  expect(objectOfNext()).toBe(first);
  pass(1);
  const second = objectOfNext();
  expect(second).not.toBe(first);
  pass(-60_000);
  expect(objectOfNext()).not.toBe(second);
});

it("clients of different kinds do not share", () => {
  const objects = [
    objectOfNext({ transport: "tcp" }),
    objectOfNext({ transport: "ws" }),
    objectOfNext({ transport: "tcp", protocol: "godistlock" }),
  ];
  expect(new Set(objects).size).toBe(3);
});

it("the id of a session that has an object to itself names that object, before and after an upgrade", () => {
  for (let count = 0; count < 1_000; count += 1) {
    const session = newSessionId();
    expect(objectNameOf(session)).toBe(session);
  }
});
