import { runInDurableObject } from "cloudflare:test";
import { expect, it } from "vitest";
import { SessionRows } from "../../../src/cloudflare/session-common/session-rows.ts";
import { newSession, sessionStub } from "../support.ts";

const tablesOf = ({ sql }: DurableObjectStorage) => sql.exec("SELECT 1 FROM sqlite_master").toArray();

it("a session that has stored nothing has nothing written for its end", async () => {
  await runInDurableObject(sessionStub(newSession()), async (_, { storage }) => {
    await new SessionRows(storage).deleteAll();
    expect(tablesOf(storage)).toEqual([]);
  });
});

it("nothing is left of a session that has deleted its rows, and it can store again", async () => {
  await runInDurableObject(sessionStub(newSession()), async (_, { storage }) => {
    const rows = new SessionRows(storage);
    rows.put("resumption", 1);
    rows.addKey("k");
    await rows.deleteAll();
    expect([rows.get("resumption"), rows.keys(), rows.hasKey("k"), tablesOf(storage)]).toEqual([
      undefined,
      [],
      false,
      [],
    ]);
    rows.addKey("l");
    expect(rows.keys()).toEqual(["l"]);
  });
});
