import { runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { expect, it } from "vitest";
import { SharedRows } from "../../../src/cloudflare/session-common/session-rows.ts";
import { fresh } from "../support.ts";

const inObject = <Result>(story: (state: DurableObjectState) => Promise<Result>) =>
  runInDurableObject(env.SESSION.getByName(fresh("rows")), (_, state) => story(state));

it("what one session stores while everything else is being deleted stays, and so does its alarm", async () => {
  await inObject(async ({ storage }) => {
    const at = Date.now() + 60_000;
    const rows = new SharedRows(storage, () => void storage.setAlarm(at));
    const [one, other] = [rows.of("one"), rows.of("other")];
    one.put("resumption", 1);
    one.addKey("k");
    await storage.sync();
    const deleted = one.deleteAll();
    other.put("resumption", 2);
    other.addKey("l");
    await deleted;
    await storage.sync();
    expect(one.get("resumption")).toBe(undefined);
    expect(one.keys()).toEqual([]);
    expect(other.get("resumption")).toBe(2);
    expect(other.keys()).toEqual(["l"]);
    expect(await storage.getAlarm()).toBe(at);
    expect([...rows.sessions()]).toEqual(["other"]);
  });
});

it("a session deletes what is its own, and nothing of another, also of one whose name begins with its name", async () => {
  await inObject(async ({ storage }) => {
    const rows = new SharedRows(storage, () => {
      throw new Error("something is left");
    });
    const [one, other] = [rows.of("one"), rows.of("one2")];
    for (const each of [one, other]) {
      each.put("resumption", 1);
      each.put("losses", 1);
      each.addKey("k");
    }
    await one.deleteAll();
    expect([one.get("resumption"), one.get("losses"), one.keys(), one.hasKey("k")]).toEqual([
      undefined,
      undefined,
      [],
      false,
    ]);
    expect([other.get("resumption"), other.get("losses"), other.keys(), other.hasKey("k")]).toEqual([
      1,
      1,
      ["k"],
      true,
    ]);
    other.removeKey("k");
    expect(other.keys()).toEqual([]);
  });
});

it("a session that has stored nothing has nothing written for its end", async () => {
  await inObject(async ({ storage }) => {
    await new SharedRows(storage, () => {
      throw new Error("nothing was there");
    })
      .of("one")
      .deleteAll();
    expect(storage.sql.exec("SELECT 1 FROM sqlite_master").toArray()).toEqual([]);
  });
});
