import { runInDurableObject } from "cloudflare:test";
import { describe, expect, it } from "vitest";
import { KeyStore } from "../../../src/cloudflare/key/rows.ts";
import { askKey, command, fresh, grantedToken, keyStub, WAIT } from "../support.ts";

describe("a key that was stored in another layout is not read, and the error says what to do:", () => {
  const TO_DO = "deploy the version that wrote it, or delete the object's data";

  it("a record of another format", async () => {
    const stub = keyStub(fresh("key"));
    grantedToken(await askKey(stub, { type: "acquire", command: command() }));
    await runInDurableObject(stub, (_, { storage }) => {
      const record = JSON.parse(storage.kv.get<string>("key") ?? "");
      storage.kv.put("key", JSON.stringify({ ...record, v: 99 }));
      expect(() => new KeyStore(storage).load()).toThrow(TO_DO);
    });
  });

  it.each(["slots", "waiters"])("a table with other columns: %s", async (table) => {
    const stub = keyStub(fresh("key"));
    grantedToken(await askKey(stub, { type: "acquire", command: command() }));
    await askKey(stub, { type: "acquire", command: command(WAIT) });
    await runInDurableObject(stub, (_, { storage }) => {
      new KeyStore(storage).load();
      storage.sql.exec(`ALTER TABLE ${table} ADD COLUMN more TEXT`);
      expect(() => new KeyStore(storage).load()).toThrow(TO_DO);
    });
  });
});
