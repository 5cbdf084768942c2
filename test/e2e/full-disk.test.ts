/**
 * The server cannot store anything new. A full disk needs a file system of its own, which not every machine lets a test
 * have; here a directory lies where a database would have to be made, which stops every user alike.
 */
import { mkdirSync, readdirSync, renameSync, rmSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { Clients } from "../support/clients.ts";
import { poll } from "../support/poll.ts";
import { Api } from "../support/rest.ts";
import { startServer, type TestServer } from "../support/server.ts";
import { ask, lock } from "../support/wire-client.ts";

/** Lets nothing new be stored from the next start on; the result lets it again. */
async function obstruct(server: TestServer): Promise<() => void> {
  expect((await new Api(server).get("/ready")).status).toBe(200);
  const directory = join(server.dataDir, "objects", "holdfast-StorageProbeObject");
  const [file = ""] = readdirSync(directory).filter((name) => /^[0-9a-f]{64}\.sqlite$/.test(name));
  await server.kill9();
  for (const end of ["-wal", "-shm"]) rmSync(join(directory, file + end), { force: true });
  renameSync(join(directory, file), join(server.dataDir, "aside"));
  mkdirSync(join(directory, file));
  return () => rmSync(join(directory, file), { recursive: true });
}

const statusOf = async (api: Api, path: string) => (await api.get(path)).status;

describe("a server that cannot store anything new", () => {
  it("is not ready, answers `error` to who wants a lock, and is well again when it can", async () => {
    await using server = await startServer();
    using before = new Clients(server);
    const held = await lock(await before.tcp(), "held", "0 600");
    const clear = await obstruct(server);
    await server.restart();

    const api = new Api(server);
    expect(await api.get("/ready")).toMatchObject({ status: 503, body: '{"status":"unavailable"}\n' });
    expect(await statusOf(api, "/health")).toBe(200);
    using clients = new Clients(server);
    const [tcp, ws] = [await clients.tcp(), await clients.ws()];
    for (const client of [tcp, ws]) {
      expect(await ask(client, "l", "new", "0")).toBe("error");
      expect(await ask(client, "e", "new", "")).toBe("error");
      expect(await ask(client, "sl", "held", "5 2")).toBe("error");
    }
    expect(await ask(tcp, "n", "held", `${held} 300`)).toBe("ok 300");
    expect(server.log).toContain('"storage_unwritable"');

    clear();
    await poll("the server to be ready", 5_000, async () => (await statusOf(api, "/ready")) === 200 || undefined);
    await lock(tcp, "new");
    expect(await ask(ws, "l", "held", "0")).toBe("timeout");
    expect(await ask(ws, "r", "held", held)).toBe("ok");
  });

  it("finds out by itself that it can again, without anybody asking whether it is ready", async () => {
    await using server = await startServer();
    const clear = await obstruct(server);
    await server.restart();
    using clients = new Clients(server);
    const client = await clients.tcp();
    await poll("an error", 5_000, async () => (await ask(client, "l", "key", "0")) === "error" || undefined);
    clear();
    await poll("a lock", 5_000, async () => /^ok /.test(await ask(client, "l", "other", "0")) || undefined);
  });
});
