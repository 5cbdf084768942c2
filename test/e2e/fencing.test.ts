/** The recipes of docs/fencing.md, each with the store it is for: who has lost the lock is refused, although he still tries. */
import { readFileSync } from "node:fs";
import { DatabaseSync } from "node:sqlite";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { s3Object, writeFenced } from "../../examples/fencing/object-store.ts";
import { TABLE, writeReport } from "../../examples/fencing/sql.ts";
import { startS3 } from "../support/s3.ts";
import { startServer, type TestServer } from "../support/server.ts";
import { staleHolder } from "../support/stale-holder.ts";

let server: TestServer;
beforeAll(async () => {
  server = await startServer();
});
afterAll(() => server.stop());
const url = () => `http://127.0.0.1:${server.httpPort}`;

it("a SQL row takes no write of a holder that has lost the lock", async () => {
  using db = new DatabaseSync(":memory:");
  db.exec(TABLE);
  const body = () => db.prepare("SELECT body FROM report WHERE name = 'daily'").get()?.body;
  await staleHolder(
    url(),
    "sql",
    (stale) => {
      expect(writeReport(db, stale.fence, "daily", "first")).toBe(true);
      expect(writeReport(db, stale.fence, "daily", "first, again")).toBe(true);
    },
    (stale, fresh) => {
      // The row does not know yet that somebody else holds the lock; what it is told last counts.
      expect(writeReport(db, fresh.fence, "daily", "second")).toBe(true);
      expect(writeReport(db, stale.fence, "daily", "too late")).toBe(false);
      expect(body()).toBe("second");
      expect(writeReport(db, fresh.fence, "daily", "second, again")).toBe(true);
    },
  );
  expect(body()).toBe("second, again");
});

describe("an object in S3", () => {
  it("takes no write of a holder that has lost the lock", async () => {
    await using store = await startS3();
    const object = s3Object(`${store.url}/report.json`);
    await staleHolder(
      url(),
      "s3",
      async (stale) => expect(await writeFenced(object, stale.fence, "first")).toBe(true),
      async (stale, fresh) => {
        expect(await writeFenced(object, fresh.fence, "second")).toBe(true);
        expect(await writeFenced(object, stale.fence, "too late")).toBe(false);
        expect(await object.read()).toMatchObject({ text: JSON.stringify({ fence: fresh.fence, value: "second" }) });
      },
    );
  });

  it("takes none either if the new holder comes between the look and the write, even with the same words", async () => {
    await using store = await startS3();
    const object = s3Object(`${store.url}/report.json`);
    await staleHolder(
      url(),
      "s3-between",
      async (stale) => expect(await writeFenced(object, stale.fence, "same")).toBe(true),
      async (stale, fresh) => {
        store.beforeNextWrite(() => writeFenced(object, fresh.fence, "same"));
        expect(await writeFenced(object, stale.fence, "too late")).toBe(false);
        expect(store.overtaken).toBe(1);
        expect(await object.read()).toMatchObject({ text: JSON.stringify({ fence: fresh.fence, value: "same" }) });
      },
    );
  });

  it("that is new is made by one only", async () => {
    await using store = await startS3();
    const object = s3Object(`${store.url}/new.json`);
    store.beforeNextWrite(() => writeFenced(object, "0000000000000002", "second"));
    expect(await writeFenced(object, "0000000000000001", "first")).toBe(false);
    expect(store.overtaken).toBe(1);
  });
});

it("the recipes in the document are those that are tested", () => {
  const read = (file: string) => readFileSync(new URL(`../../${file}`, import.meta.url), "utf8");
  const files = ["sql", "object-store", "r2", "durable-object"].map((name) => read(`examples/fencing/${name}.ts`));
  const blocks = [...read("docs/fencing.md").matchAll(/^```ts\n(.*?)^```$/gms)].map(([, code = ""]) => code);
  expect(blocks.length).toBeGreaterThanOrEqual(files.length);
  for (const code of blocks) expect(files.join("\n")).toContain(code);
});
