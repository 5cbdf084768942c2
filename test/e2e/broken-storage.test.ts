/** The server finds a key's database damaged when it starts. */
import { readdirSync, rmSync, truncateSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { Clients } from "../support/clients.ts";
import { Api } from "../support/rest.ts";
import { startServer, type TestServer } from "../support/server.ts";
import { ask, lock } from "../support/wire-client.ts";

const databases = ({ dataDir }: TestServer) => join(dataDir, "objects", "holdfast-KeyObject");
const filesOf = (server: TestServer) =>
  readdirSync(databases(server)).filter((name) => /^[0-9a-f]{64}\.sqlite$/.test(name));

const damages: readonly (readonly [string, (path: string) => void])[] = [
  ["overwritten", (path) => writeFileSync(path, Buffer.alloc(8_192, "A"))],
  ["cut to 100 bytes", (path) => truncateSync(path, 100)],
  ["cut to 0 bytes", (path) => truncateSync(path, 0)],
  ["deleted", (path) => rmSync(path)],
];

describe.each(damages)("a key whose database was %s", (_, damage) => {
  it("is granted to nobody and named in the log, and other keys go on", async () => {
    await using server = await startServer();
    using before = new Clients(server);
    const holder = await before.tcp();
    const held = await lock(holder, "broken", "0 60");
    const [file = ""] = filesOf(server);
    const well = await lock(holder, "well", "0 60");
    await server.kill9();
    const path = join(databases(server), file);
    for (const log of ["-wal", "-shm"]) rmSync(path + log, { force: true });
    damage(path);
    await server.restart();

    using after = new Clients(server);
    const [client, other] = [await after.tcp(), await after.ws()];
    for (let attempt = 0; attempt < 2; attempt += 1) {
      expect(await ask(client, "l", "broken", "0")).toBe("error");
      expect(await ask(other, "e", "broken", "")).toBe("error");
      expect(await ask(other, "sl", "broken", "0 2")).toBe("error");
      expect(await ask(client, "n", "broken", `${held} 30`)).toBe("error");
    }
    const line = server.log.split("\n").find((text) => text.includes('"key_unreadable"'));
    expect(JSON.parse(line ?? "null")).toMatchObject({ key: "broken", file: `holdfast-KeyObject/${file}` });

    expect(await new Api(server).get("/v1/keys/broken")).toMatchObject({
      status: 503,
      body: '{"error":"unavailable"}\n',
    });

    expect(await ask(client, "l", "well", "0")).toBe("timeout");
    expect(await ask(client, "n", "well", `${well} 30`)).toBe("ok 30");
    await lock(other, "new");
  });
});

describe("a key that has lost its database", () => {
  it("can be locked again once an administrator gives it up, and no other key can be given up", async () => {
    await using server = await startServer({ variables: { ADMIN_TOKEN: "let-me-in" } });
    using before = new Clients(server);
    const held = await lock(await before.tcp(), "lost", "0 60");
    const [file = ""] = filesOf(server);
    await lock(await before.tcp(), "well", "0 60");
    await server.kill9();
    for (const part of ["", "-wal", "-shm"]) rmSync(join(databases(server), file + part));
    await server.restart();

    const api = new Api(server);
    const admin = api.with({ Authorization: "Bearer let-me-in" });
    expect((await api.delete("/v1/admin/keys/lost")).status).toBe(403);
    for (const key of ["well", "unknown"]) {
      expect(await admin.delete(`/v1/admin/keys/${key}`)).toMatchObject({
        status: 404,
        body: '{"error":"not_found"}\n',
      });
    }
    using after = new Clients(server);
    const client = await after.tcp();
    expect(await ask(client, "l", "lost", "0")).toBe("error");
    expect((await admin.delete("/v1/admin/keys/lost")).status).toBe(204);
    expect((await lock(client, "lost")) > held).toBe(true);
    expect((await admin.delete("/v1/admin/keys/lost")).status).toBe(404);
    expect(await ask(client, "l", "well", "0")).toBe("timeout");
  });
});
