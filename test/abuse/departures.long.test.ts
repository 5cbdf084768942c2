import { setTimeout as pause } from "node:timers/promises";
import { describe, expect, it } from "vitest";
import type { RunningServe } from "../cli/support.ts";
import { Clients } from "../support/clients.ts";
import { send } from "../support/http-client.ts";
import { poll } from "../support/poll.ts";
import { startServerProcess } from "../support/server-process.ts";
import type { Stats } from "../support/stats.ts";
import { ask, lock, tokenOf, type WireClient } from "../support/wire-client.ts";
import { ANSWERED_WITHIN_MS, besideBystanders } from "./bystanders.ts";
import { hasFiles, type Limited, limited, OPEN_FILES } from "./limited.ts";
import { scaled, TIMEOUT_MS } from "./scale.ts";

const KEYS = scaled(3_000, 30_000);
const PATIENCE_MS = scaled(40_000, 300_000);

async function kill({ child, exited }: RunningServe): Promise<void> {
  child.kill("SIGKILL");
  await exited;
}

async function takeKeys(taker: WireClient, leaseSeconds: number): Promise<void> {
  taker.send(Array.from({ length: KEYS }, (_, index) => `@${index} l\ntaken-${index}\n0 ${leaseSeconds}\n`).join(""));
  for (let index = 0; index < KEYS; index += 1) tokenOf(await taker.next(PATIENCE_MS));
}

async function read<Document>({ httpPort }: Limited, path: string): Promise<Document> {
  const { status, body } = await send(httpPort, { method: "GET", path }, PATIENCE_MS);
  expect({ status, body: status === 200 ? "" : body }).toEqual({ status: 200, body: "" });
  return JSON.parse(body) as Document;
}

async function isFree(story: Limited, key: string): Promise<true | undefined> {
  return (await read<{ holders: number }>(story, `/v1/keys/${key}`)).holders === 0 ? true : undefined;
}

/** Resolves when nobody holds any of the keys, and each is there to be taken. */
async function allFree(story: Limited): Promise<void> {
  await poll("all keys to be free", PATIENCE_MS, async () => {
    const { locks, idle_locks: idle } = await read<Stats>(story, "/v1/stats?prefix=taken-");
    return locks.length === 0 && idle.length === KEYS ? true : undefined;
  });
}

async function isWell(story: Limited): Promise<void> {
  hasFiles(story);
  const next = await story.clients.ws();
  expect(await ask(next, "r", "taken-0", await lock(next, "taken-0"))).toBe("ok");
}

describe(`with ${OPEN_FILES} open files at most, ${KEYS} keys of one client cost nobody else a lock`, () => {
  it("when it leaves", { timeout: TIMEOUT_MS }, async () => {
    const story = await limited();
    const { slowestMs, lost } = await besideBystanders(story, async () => {
      const taker = await story.clients.ws();
      await takeKeys(taker, 300);
      taker.close();
      await allFree(story);
    });
    expect(lost).toBe(0);
    expect(slowestMs).toBeLessThan(ANSWERED_WITHIN_MS);
    await isWell(story);
  });

  it("when all leases end at the same time, and when the keys are forgotten", { timeout: TIMEOUT_MS }, async () => {
    const story = await limited({ args: ["--gc-max-idle", "1", "--gc-interval", "1"] });
    const { slowestMs, lost } = await besideBystanders(story, async () => {
      await takeKeys(await story.clients.ws(), scaled(10, 60));
      await poll("all keys to be forgotten", PATIENCE_MS, async () => {
        const { locks, idle_locks: idle } = await read<Stats>(story, "/v1/stats?prefix=taken-&limit=1");
        return locks.length + idle.length === 0 ? true : undefined;
      });
    });
    expect(lost).toBe(0);
    expect(slowestMs).toBeLessThan(ANSWERED_WITHIN_MS);
    await isWell(story);
  });
});

it("keys whose leases ended while the server was down are free when it is back, and it stays", {
  timeout: TIMEOUT_MS,
}, async () => {
  const before = await limited();
  const leaseSeconds = scaled(15, 60);
  await takeKeys(await before.clients.ws(), leaseSeconds);
  const endsAt = performance.now() + leaseSeconds * 1_000;
  await kill(before.server);
  await pause(endsAt - performance.now());
  const story = await limited({ dataDir: before.server.dataDir });
  await allFree(story);
  await isWell(story);
});

it("a departure that a crash has interrupted is finished after the restart", { timeout: TIMEOUT_MS }, async () => {
  const before = await limited();
  const taker = await before.clients.ws();
  await takeKeys(taker, 3_000);
  taker.close();
  await poll("the first key to be free", PATIENCE_MS, () => isFree(before, "taken-0"));
  await kill(before.server);
  const story = await limited({ dataDir: before.server.dataDir });
  await allFree(story);
  await isWell(story);
});

it("a client that takes many keys in one write keeps nobody waiting, without any limit", {
  timeout: TIMEOUT_MS,
}, async () => {
  await using server = await startServerProcess();
  using clients = new Clients(server);
  const { slowestMs, lost } = await besideBystanders({ clients, httpPort: server.httpPort }, async () => {
    const taker = await clients.ws();
    await takeKeys(taker, 300);
    taker.close();
  });
  expect(lost).toBe(0);
  expect(slowestMs).toBeLessThan(ANSWERED_WITHIN_MS);
});
