import { evictDurableObject } from "cloudflare:test";
import { afterEach, expect, it, vi } from "vitest";
import { DirectoryObject } from "../../../src/cloudflare/directory/directory-object.ts";
import { command, fresh, grantedToken, keyStub, WAIT } from "../support.ts";

afterEach(() => {
  vi.restoreAllMocks();
});

it("a key is founded by one of those who want it at a time, also after a founding that failed", async () => {
  const key = fresh("key");
  const { joinKey } = DirectoryObject.prototype;
  let [underWay, most, attempts] = [0, 0, 0];
  vi.spyOn(DirectoryObject.prototype, "joinKey").mockImplementation(async function (this: DirectoryObject, ...args) {
    attempts += 1;
    underWay += 1;
    most = Math.max(most, underWay);
    const isFirst = attempts === 1;
    await scheduler.wait(20);
    underWay -= 1;
    if (isFirst) throw new Error("unreachable");
    return joinKey.apply(this, args);
  });
  const stub = keyStub(key);
  const outcomes = await Promise.allSettled([
    stub.acquire(command()),
    stub.acquire(command(WAIT)),
    stub.acquire(command(WAIT)),
  ]);
  expect(most).toBe(1);
  const fulfilled = outcomes.flatMap((outcome) => (outcome.status === "fulfilled" ? [outcome.value] : []));
  expect(fulfilled.map(({ status }) => status).sort()).toEqual(["granted", "queued"]);
  for (const outcome of fulfilled) if (outcome.status === "granted") grantedToken(outcome);
});

it("those who found a key at once get one holder, also after its object was lost", async () => {
  const stub = keyStub(fresh("key"));
  const outcomes = await Promise.all([1, 2, 3].map(async () => stub.acquire(command())));
  expect(outcomes.map(({ status }) => status).sort()).toEqual(["granted", "timeout", "timeout"]);
  await evictDurableObject(stub);
  expect((await stub.acquire(command())).status).toBe("timeout");
});
