import { readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { expect, it } from "vitest";
import { Clients } from "../support/clients.ts";
import { send } from "../support/http-client.ts";
import { startServer } from "../support/server.ts";
import { ask, lock } from "../support/wire-client.ts";

/** Overwrites the database of the only key whose rows name this token. */
function ruin(dataDir: string, token: string): void {
  const folder = join(dataDir, "objects", "holdfast-KeyObject");
  for (const file of readdirSync(folder)) {
    if (!/^[0-9a-f]{64}\.sqlite$/.test(file)) continue;
    const database = new DatabaseSync(join(folder, file));
    const isIt =
      database.prepare("SELECT 1 FROM _cf_KV WHERE instr(value, ?) > 0").get(Buffer.from(token)) !== undefined;
    database.close();
    if (!isIt) continue;
    writeFileSync(join(folder, file), Buffer.alloc(16_384, "garbage"));
    return;
  }
  throw new Error("no such key on disk");
}

it("a key that cannot be read is named and counted, never left out, and the others are served", async () => {
  await using server = await startServer();
  const before = new Clients(server);
  const holder = await before.ws();
  const token = await lock(holder, "ruined", "0 300");
  await lock(holder, "whole", "0 300");
  await server.kill9();
  before[Symbol.dispose]();
  ruin(server.dataDir, token);
  await server.restart();

  using clients = new Clients(server);
  const client = await clients.tcp();
  const get = async (path: string) => send(server.httpPort, { method: "GET", path });
  const expected = { locks: [{ key: "whole" }], unreachable: ["ruined"], unreachable_count: 1 };
  expect(JSON.parse((await ask(client, "stats", "_", "_")).slice(3))).toMatchObject(expected);
  expect(JSON.parse((await get("/v1/stats")).body)).toMatchObject(expected);
  expect(JSON.parse((await get("/v1/stats?prefix=whole")).body)).not.toHaveProperty("unreachable");
  expect(await get("/v1/keys/ruined")).toMatchObject({ status: 503, body: '{"error":"unavailable"}\n' });
  expect((await get("/v1/keys/whole")).status).toBe(200);
  const { body } = await get("/metrics");
  expect(body).toContain("\ndflockd_keys_unreachable 1\n");
  expect(body).toContain("\ndflockd_keys 1\n");
  expect(server.log).toContain('"event":"key_unreachable","key":"ruined"');
});
