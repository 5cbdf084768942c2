/** Under AUTO_RELEASE_ON_DISCONNECT=false. */
import { afterEach, describe, it, vi } from "vitest";
import { SessionObject } from "../../../src/cloudflare/session/session-object.ts";
import { withholdOffers } from "../offers.ts";
import { replaceNextCommand } from "../spies.ts";
import { Client, fresh, keyStub, sessionsOn, tokenOf, until } from "../support.ts";

afterEach(() => {
  vi.restoreAllMocks();
});

describe("without auto-release", () => {
  it("a grant that its client could not hear is given up with its session", async () => {
    const key = fresh("key");
    const [holder, waiter] = [await Client.open(), await Client.open()];
    const token = tokenOf(await holder.ask(`l\n${key}\n0\n`));
    waiter.send(`l\n${key}\n60\n`);
    await until(async () => (await sessionsOn(key)).length === 2, { timeout: 2_000, interval: 10 });
    withholdOffers();
    let [isPickedUp, isLeft] = [false, false];
    replaceNextCommand("pickUp", key, async (_, carryOut) => {
      const outcome = await carryOut();
      isPickedUp = true;
      await until(() => isLeft);
      return outcome;
    });
    const { webSocketClose } = SessionObject.prototype;
    vi.spyOn(SessionObject.prototype, "webSocketClose").mockImplementation(function (this: SessionObject, ...args) {
      const closing = webSocketClose.apply(this, args);
      isLeft = true;
      return closing;
    });
    await holder.ask(`r\n${key}\n${token}\n`);
    await until(() => isPickedUp);
    waiter.close();
    await until(async () => (await keyStub(key).describe())?.holderCount !== 1, {
      timeout: 3_000,
      interval: 20,
    });
  });
});
