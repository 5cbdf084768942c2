/** Under AUTO_RELEASE_ON_DISCONNECT=false. */
import { afterEach, describe, it, vi } from "vitest";
import { KeyObject } from "../../../src/objects/key/key-object.ts";
import { Client, fresh, keyStub, sessionsOn, tokenOf } from "../support.ts";

afterEach(() => {
  vi.restoreAllMocks();
});

describe("without auto-release", () => {
  it("a grant that its client could not hear is given up with its session", async () => {
    const key = fresh("key");
    const [holder, waiter] = [await Client.open(), await Client.open()];
    const token = tokenOf(await holder.ask(`l\n${key}\n0\n`));
    waiter.send(`l\n${key}\n60\n`);
    await vi.waitUntil(async () => (await sessionsOn(key)).length === 2, { timeout: 2_000, interval: 10 });
    const { pickUp } = KeyObject.prototype;
    let isPickedUp = false;
    vi.spyOn(KeyObject.prototype, "pickUp").mockImplementationOnce(async function (this: KeyObject, request) {
      const outcome = await pickUp.call(this, request);
      isPickedUp = true;
      await scheduler.wait(300);
      return outcome;
    });
    await holder.ask(`r\n${key}\n${token}\n`);
    await vi.waitUntil(() => isPickedUp, { timeout: 2_000, interval: 5 });
    waiter.close();
    await vi.waitUntil(async () => (await keyStub(key).describe())?.holderCount !== 1, {
      timeout: 3_000,
      interval: 20,
    });
  });
});
