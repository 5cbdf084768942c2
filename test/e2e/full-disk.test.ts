/** On Node one disk is full for everybody. (On Cloudflare storage is the platform's.) */
import { afterEach, describe, expect, it, vi } from "vitest";
import { SqliteStore } from "../../src/node/store/sqlite.ts";
import { Clients } from "../support/clients.ts";
import { poll } from "../support/poll.ts";
import { Api } from "../support/rest.ts";
import { startServer } from "../support/server.ts";
import { ask, lock } from "../support/wire-client.ts";

afterEach(() => {
  vi.restoreAllMocks();
});

/** Fails every transaction at its end, and has the database take it back, until told otherwise. */
function fillDisk(): { readonly clear: () => void } {
  const { commit } = SqliteStore.prototype;
  let isFull = true;
  vi.spyOn(SqliteStore.prototype, "commit").mockImplementation(function (this: SqliteStore, write) {
    commit.call(this, (rows) => {
      write(rows);
      if (isFull) throw new Error("database or disk is full");
    });
  });
  return {
    clear() {
      isFull = false;
    },
  };
}

const statusOf = async (api: Api, path: string) => (await api.get(path)).status;
const isReadyAgain = (api: Api) =>
  poll("the server to be ready", 10_000, async () => ((await statusOf(api, "/ready")) === 200 ? true : undefined));

describe("a server that cannot store anything", () => {
  it("cuts off who it happened to, is not ready, and answers `error` to who wants a lock, until it can again", async () => {
    await using server = await startServer();
    const api = new Api(server);
    using clients = new Clients(server);
    const [holder, unlucky, bystander] = [await clients.tcp(), await clients.ws(), await clients.ws()];
    const held = await lock(holder, "held", "0 600");
    expect(await ask(bystander, "ping", "_", "_")).toBe("ok");
    const disk = fillDisk();

    unlucky.send("l\nnew\n0\n");
    expect(await unlucky.closed()).toMatchObject({ code: 1012 });
    expect(await api.get("/ready")).toMatchObject({ status: 503, body: '{"status":"unavailable"}\n' });
    expect(await statusOf(api, "/health")).toBe(200);
    const newcomer = await clients.tcp();
    expect(await ask(newcomer, "ping", "_", "_")).toBe("ok");
    for (const client of [bystander, newcomer]) {
      expect(await ask(client, "l", "new", "0")).toBe("error");
      expect(await ask(client, "e", "new", "")).toBe("error");
      expect(await ask(client, "sl", "held", "5 2")).toBe("error");
    }
    expect(await api.get("/v1/keys/held")).toMatchObject({ status: 200 });
    expect(await api.get("/v1/keys/new")).toMatchObject({ status: 404 });

    disk.clear();
    await isReadyAgain(api);
    await lock(newcomer, "new");
    expect(await ask(bystander, "l", "held", "0")).toBe("timeout");
    expect(await ask(bystander, "r", "held", held)).toBe("ok");
    const events = server.log.split("\n").flatMap((line) => /"event":"(\w+)"/.exec(line)?.[1] ?? []);
    expect(events).toEqual(expect.arrayContaining(["batch_failed", "storage_works_again"]));
  });

  it("answers 503 over HTTP, and a session goes on with what it had", async () => {
    await using server = await startServer();
    const api = new Api(server);
    const s = await api.session();
    const token = await s.lock("held", { lease_ttl_s: 60 });
    const disk = fillDisk();
    expect(await s.post("/v1/locks/new", { acquire_timeout_s: 0 })).toMatchObject({ status: 503 });
    expect(await s.post("/v1/locks/new", { acquire_timeout_s: 5 })).toMatchObject({ status: 503 });
    disk.clear();
    await isReadyAgain(api);
    await s.release("held", token);
    await s.lock("new");
  });

  it("finds out by itself that it can again, without anybody asking whether it is ready", async () => {
    await using server = await startServer();
    using clients = new Clients(server);
    const [client, unlucky] = [await clients.tcp(), await clients.tcp()];
    // Its session is there, and not part of the batch that fails.
    expect(await ask(client, "ping", "_", "_")).toBe("ok");
    const disk = fillDisk();
    unlucky.send("l\nkey\n0\n");
    await unlucky.closed();
    expect(await ask(client, "l", "key", "0")).toBe("error");
    disk.clear();
    await poll("a lock", 5_000, async () => (/^ok /.test(await ask(client, "l", "other", "0")) ? true : undefined));
  });
});
