/** A session belongs to whoever has its secret, and to nobody else while he is there. */
import { randomBytes } from "node:crypto";
import { afterAll, beforeAll, expect, it } from "vitest";
import { WebSocket as NodeWebSocket } from "ws";
import type { Locks } from "../../src/client/index.ts";
import { poll, sleep } from "../support/poll.ts";
import { startServer, type TestServer } from "../support/server.ts";
import { connectTo, freshKey, storyOf } from "./support.ts";

let server: TestServer;
beforeAll(async () => {
  server = await startServer();
});
afterAll(() => server.stop());

/** A client, and the credential that its own service gave it. */
async function victim(): Promise<{ locks: Locks; session: string; secret: string }> {
  const heard: string[] = [];
  class Overheard extends WebSocket {
    constructor(url: string, protocols: string[]) {
      super(url, protocols);
      this.addEventListener("message", ({ data }) => heard.push(String(data)));
    }
  }
  const locks = connectTo(server.httpPort, { WebSocket: Overheard });
  const credential = await poll("the credential", 5_000, async () =>
    heard.map((line) => /ok ((?:[0-9a-f]{32}){1,2})\.([0-9a-f]{32}) \d+\n$/.exec(line)).find((match) => match !== null),
  );
  const [, session = "", secret = ""] = credential;
  return { locks, session, secret };
}

/** Tries to take a session up; how the server ends that, or "taken". */
function takeUp(session: string, secret: string): Promise<number | "taken"> {
  const protocols = ["dflockd.v2", `holdfast.resume.${session}.${secret}`];
  const socket = new NodeWebSocket(`ws://127.0.0.1:${server.httpPort}/v1/ws`, protocols);
  return new Promise((resolve, reject) => {
    socket.on("error", reject);
    socket.on("close", resolve);
    socket.on("open", () => {
      socket.send("@x ping\n_\n_\n");
      socket.on("message", () => {
        resolve("taken");
        socket.close();
      });
    });
  });
}

it("a wrong secret takes nothing up, however often it is guessed, and its owner notices nothing", async () => {
  const { locks, session, secret } = await victim();
  await using lock = await locks.acquire(freshKey());
  const story = storyOf(locks);
  const guesses = Array.from({ length: 20 }, () => randomBytes(16).toString("hex"));
  const near = `${secret.slice(0, -1)}${secret.endsWith("0") ? "1" : "0"}`;
  for (const guess of [near, secret.split("").reverse().join(""), ...guesses])
    expect(await takeUp(session, guess)).toBe(4410);
  expect(await takeUp(randomBytes(16).toString("hex"), secret)).toBe(4410);
  expect(lock.isHeld).toBe(true);
  expect(story).toEqual(["connected"]);
  await locks.close();
});

it("the right secret takes nothing from a client that is there", async () => {
  const { locks, session, secret } = await victim();
  const key = freshKey();
  const lock = await locks.acquire(key);
  const waiting = locks.acquire(key);
  const story = storyOf(locks);
  const attempts = await Promise.all(Array.from({ length: 5 }, () => takeUp(session, secret)));
  expect(attempts).toEqual([4409, 4409, 4409, 4409, 4409]);
  expect(story).toEqual(["connected"]);
  expect(await lock.release()).toBe(true);
  expect(await (await waiting).release()).toBe(true);
  await locks.close();
});

it("the right secret is worth nothing once its client has left", async () => {
  const { locks, session, secret } = await victim();
  await locks.acquire(freshKey());
  await locks.close();
  await sleep(0.2);
  expect(await takeUp(session, secret)).toBe(4410);
});
