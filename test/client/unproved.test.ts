/** Whoever has a session's secret but not the token of the service can neither use the session nor end it. */
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { sleep } from "../support/poll.ts";
import { startServer, type TestServer } from "../support/server.ts";
import { askToResume, type Speaker, speakTo } from "../support/speaker.ts";
import { stopwatch } from "../support/stopwatch.ts";

const TOKEN = "the shared token";
let server: TestServer;
beforeAll(async () => {
  server = await startServer({ variables: { AUTH_TOKEN: TOKEN } });
});
afterAll(() => server.stop());

async function speak(credential?: string): Promise<Speaker> {
  const speaker = await speakTo(server.httpPort, credential);
  speaker.say("auth", "_", TOKEN);
  return speaker;
}

/** What takes up a session that has lost its socket, and the lock it has on this key. */
async function detached(key: string): Promise<{ credential: string; granted: string }> {
  const speaker = await speak();
  const { credential } = await askToResume(speaker);
  speaker.say("@1 l", key, "0");
  const granted = await speaker.hears("@1 ok");
  speaker.socket.terminate();
  await speaker.closed;
  return { credential, granted };
}

/** Whether the session can be taken up, with its lock. */
async function isWhole(credential: string, key: string, granted: string): Promise<boolean> {
  const back = await speak(credential);
  if (back.socket.readyState === back.socket.OPEN) back.say("@1 l", key, "0");
  const heard = await Promise.race([back.hears("@1 ok"), back.closed]);
  back.socket.close(1000);
  await back.closed;
  return heard === granted;
}

describe("a socket that has shown the secret but not the token", () => {
  it.each([[1000], [1001], [3000], [undefined]])("does not end the session when it closes with %s", async (code) => {
    const key = `closes-${code}`;
    const { credential, granted } = await detached(key);
    const thief = await speakTo(server.httpPort, credential);
    thief.socket.close(code);
    await thief.closed;
    expect(await isWhole(credential, key, granted)).toBe(true);
  });

  it.each([
    ["much too much at once", 1009, (thief: Speaker) => thief.socket.send("x".repeat(1_048_577))],
    ["too long a line", 4401, (thief: Speaker) => thief.socket.send(`${"x".repeat(70_000)}\n`)],
    ["something else than `auth`", 4401, (thief: Speaker) => thief.say("@1 ping")],
    ["the end of its input", 4401, (thief: Speaker) => thief.socket.send(new Uint8Array(0))],
  ])("does not end it with %s", async (what, code, act) => {
    const key = what.replaceAll(" ", "-");
    const { credential, granted } = await detached(key);
    const thief = await speakTo(server.httpPort, credential);
    act(thief);
    expect(await thief.closed).toBe(code);
    expect(await isWhole(credential, key, granted)).toBe(true);
  });
});

it("a socket that has shown the secret alone makes way at once, however much alive it is", async () => {
  const { credential, granted } = await detached("occupied");
  const thief = await speakTo(server.httpPort, credential);
  thief.socket.on("message", () => thief.socket.send("a"));
  thief.socket.send("a");
  const elapsed = stopwatch();
  expect(await isWhole(credential, "occupied", granted)).toBe(true);
  // Nobody asks it whether it is there, which would take two seconds.
  expect(elapsed()).toBeLessThan(1_500);
  expect(await thief.closed).toBe(4411);
});

it("does not make the grace any longer, however often it comes", async () => {
  await using short = await startServer({ variables: { AUTH_TOKEN: TOKEN, RESUME_GRACE_S: "2" } });
  const owner = await speakTo(short.httpPort);
  owner.say("auth", "_", TOKEN);
  const { credential } = await askToResume(owner);
  owner.say("@1 l", "kept", "0 60");
  await owner.hears("@1 ok");
  const other = await speakTo(short.httpPort);
  other.say("auth", "_", TOKEN);
  other.say("@2 l", "kept", "30");
  owner.socket.terminate();
  await owner.closed;
  const elapsed = stopwatch();
  const visits: Speaker[] = [];
  const granted = other.hears("@2 ok");
  for (let visit = 0; visit < 3; visit += 1) {
    visits.push(await speakTo(short.httpPort, credential));
    await Promise.race([granted, sleep(0.5)]);
  }
  await granted;
  expect(elapsed()).toBeLessThan(3_500);
  expect(await visits.at(-1)?.closed).toBe(4410);
  other.socket.close(1000);
});

it.each([[1000], [1001]])("one that has shown both ends it at once with %i", async (code) => {
  const key = `proved-${code}`;
  const { credential, granted } = await detached(key);
  const back = await speak(credential);
  await back.hears("ok");
  back.socket.close(code);
  await back.closed;
  expect(await isWhole(credential, key, granted)).toBe(false);
});
