/** Copies of a running server's database. */
import { mkdtempSync, readdirSync, readFileSync, readlinkSync, rmSync, statSync, writeFileSync } from "node:fs";
import { get, type IncomingMessage } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { afterEach, describe, expect, it } from "vitest";
import { connect } from "../../src/client/index.ts";
import { type RunningService, serve } from "../../src/node/index.ts";
import { SqliteStore } from "../../src/node/store/sqlite.ts";
import type { SnapshotOutcome } from "../../src/node/store/store.ts";
import { poll } from "../support/poll.ts";

const ADMIN = "let-me-in";
const AS_ADMIN = { Authorization: `Bearer ${ADMIN}` };
const PATIENCE_MS = 30_000;
/** More than the sockets between server and client take by themselves. */
const LARGE_BYTES = 48 * 2 ** 20;
const folders: string[] = [];
const services: RunningService[] = [];

afterEach(async () => {
  for (const service of services.splice(0)) await service.stop();
  for (const folder of folders.splice(0)) rmSync(folder, { recursive: true });
});

function folder(): string {
  const path = mkdtempSync(join(tmpdir(), "holdfast-backup-"));
  folders.push(path);
  return path;
}

async function start(dataDir: string, variables: Record<string, string> = {}) {
  const anyPort = { host: "127.0.0.1", port: 0 };
  const log: string[] = [];
  const service = await serve({
    dataDir,
    tcp: anyPort,
    http: anyPort,
    variables: { ADMIN_TOKEN: ADMIN, RESUME_GRACE_S: "600", ...variables },
    log: (text) => void log.push(text),
  });
  services.push(service);
  return { service, url: `http://127.0.0.1:${service.httpPort}`, log };
}

const ask = (url: string, init: RequestInit = {}) => fetch(`${url}/v1/admin/backup`, { headers: AS_ADMIN, ...init });

/** A directory with a large database in it. */
function largeDirectory(): string {
  const path = folder();
  const store = SqliteStore.open(join(path, "holdfast.db"));
  // Not one large value: SQLite would read all of it to find its neighbours.
  store.commit((rows) => {
    for (let index = 0; index < LARGE_BYTES / 4_000; index += 1) rows.putValue(`padding ${index}`, "x".repeat(4_000));
  });
  store.close();
  return path;
}

/** Files of this directory that are open and have no name any more. */
const openCopies = (directory: string) =>
  readdirSync("/proc/self/fd").flatMap((descriptor) => {
    try {
      const path = `/proc/self/fd/${descriptor}`;
      const target = readlinkSync(path);
      return target.startsWith(directory) && target.endsWith(" (deleted)") ? [statSync(path)] : [];
    } catch {
      // It was closed meanwhile.
      return [];
    }
  });

const namesIn = (directory: string) => readdirSync(directory).sort();
const USUAL_FILES = ["holdfast.db", "holdfast.db-reserve", "holdfast.db-wal"];

it("a copy made under load is a server again: what was held is held, and fences rise", async () => {
  const original = await start(folder());
  await using locks = connect(original.url);
  const held = await Promise.all(
    Array.from({ length: 50 }, (_, index) => locks.acquire(`held/${index}`, { lease: 600_000 })),
  );
  const highest = new Map<string, string>();
  let isOver = false;
  const busy = Array.from({ length: 20 }, async (_, index) => {
    const key = `busy/${index % 10}`;
    while (!isOver) {
      await locks.request(key, ({ fence }) => {
        if (fence > (highest.get(key) ?? "")) highest.set(key, fence);
      });
    }
  });
  await poll("some load", PATIENCE_MS, async () => highest.size === 10 || undefined);
  const reply = await ask(original.url);
  expect(reply.status).toBe(200);
  expect(Object.fromEntries(reply.headers)).toMatchObject({
    "content-type": "application/vnd.sqlite3",
    "content-disposition": 'attachment; filename="holdfast.db"',
    "cache-control": "no-store",
  });
  const bytes = Buffer.from(await reply.arrayBuffer());
  expect(reply.headers.get("content-length")).toBe(String(bytes.length));
  isOver = true;
  await Promise.all(busy);

  const directory = folder();
  writeFileSync(join(directory, "holdfast.db"), bytes);
  const database = new DatabaseSync(join(directory, "holdfast.db"));
  expect(database.prepare("PRAGMA integrity_check").get()).toEqual({ integrity_check: "ok" });
  database.close();

  const restored = await start(directory);
  await using others = connect(restored.url);
  for (const { key, fence } of held) {
    expect((await others.query(key))?.held_by, key).toMatchObject([{ fence }]);
    expect(await others.tryAcquire(key)).toBeNull();
  }
  // Whoever knows the token releases the lock there as here.
  const [first] = held;
  const body = JSON.stringify({ token: first?.token });
  const headers = { ...(await sessionOn(restored.url)), "Content-Type": "application/json" };
  const released = await fetch(`${restored.url}/v1/locks/held%2F0/release`, { method: "POST", headers, body });
  expect(released.status).toBe(204);
  await using again = await others.acquire("held/0");
  expect(again.fence > (first?.fence ?? "~")).toBe(true);
  // Locks that came and went at that moment may be held in the copy, until their leases end: take them.
  await using admin = connect(restored.url, { token: ADMIN });
  for (const [key, fence] of highest) {
    const lock = await admin.acquire(key, { steal: true });
    expect(lock.fence > fence, key).toBe(true);
  }
});

async function sessionOn(url: string): Promise<Record<string, string>> {
  const reply = await fetch(`${url}/v1/sessions`, { method: "POST" });
  const { session_id } = (await reply.json()) as { session_id: string };
  return { "X-Dflockd-Session": session_id };
}

describe("the copy on its way", () => {
  it("has no name in the directory, is open for as long as it is read, and only one is read at a time", async () => {
    const directory = largeDirectory();
    const { url, log } = await start(directory);
    const reading = await begin(url);
    expect(namesIn(directory)).toEqual(USUAL_FILES);
    // For this user alone.
    expect(openCopies(directory).map(({ mode }) => mode & 0o777)).toEqual([0o600]);
    const other = await ask(url);
    expect(other.status).toBe(503);
    expect(await other.json()).toEqual({
      error: "backup_refused",
      detail: "another copy is being read: try again when that has ended",
    });
    let bytes = 0;
    for await (const piece of reading) bytes += (piece as Buffer).length;
    expect(bytes).toBe(Number(reading.headers["content-length"]));
    expect(bytes).toBeGreaterThan(LARGE_BYTES);
    await closed(directory);
    expect(log.join("")).toContain('"event":"backup_taken"');
    expect((await (await ask(url)).arrayBuffer()).byteLength).toBe(bytes);
  });

  it("is gone when its reader hangs up", async () => {
    const directory = largeDirectory();
    const { url } = await start(directory);
    const reading = await begin(url);
    reading.destroy();
    await closed(directory);
    expect(namesIn(directory)).toEqual(USUAL_FILES);
    (await begin(url)).destroy();
    await closed(directory);
  });

  it("is gone when its reader takes nothing for too long", async () => {
    const directory = largeDirectory();
    const { url } = await start(directory, { WRITE_TIMEOUT_S: "1" });
    const reading = await begin(url);
    reading.pause();
    await closed(directory);
    reading.destroy();
  });

  it("is gone when the server stops", async () => {
    const directory = largeDirectory();
    const { service, url } = await start(directory);
    const reading = await begin(url);
    reading.on("error", () => {});
    await service.stop();
    await closed(directory);
  });

  it("is made for nobody by HEAD", async () => {
    const { url, log } = await start(folder());
    const reply = await ask(url, { method: "HEAD" });
    expect(reply.status).toBe(200);
    expect(reply.headers.get("content-type")).toBe("application/vnd.sqlite3");
    expect(log.join("")).not.toContain("backup_taken");
  });

  /** The answer, when its head and its first bytes are there. */
  function begin(url: string): Promise<IncomingMessage> {
    return new Promise((resolve, reject) => {
      const request = get(`${url}/v1/admin/backup`, { headers: AS_ADMIN, agent: false }, (incoming) => {
        incoming.once("readable", () => resolve(incoming));
        incoming.on("error", () => {});
      });
      request.on("error", reject);
    });
  }

  const closed = (directory: string) =>
    poll("the copy to be closed", PATIENCE_MS, async () => openCopies(directory).length === 0 || undefined);
});

it("what a crash has left of a copy is removed at the start, and nothing else", async () => {
  const directory = folder();
  await (await start(directory)).service.stop();
  writeFileSync(join(directory, "holdfast.db-copy-4711"), "half of it");
  writeFileSync(join(directory, "holdfast.db.monday"), "mine");
  await start(directory);
  expect(namesIn(directory)).toEqual([...USUAL_FILES, "holdfast.db.monday"].sort());
});

it("a server that keeps nothing on disk says so", async () => {
  const { url } = await start(":memory:");
  const reply = await ask(url);
  expect(reply.status).toBe(404);
  expect(await reply.json()).toEqual({
    error: "not_found",
    detail: "there is no file to copy: this server keeps nothing on disk (--data-dir :memory:)",
  });
});

describe("the store", () => {
  it("copies what is committed, and refuses in the middle of a transaction", async () => {
    const path = join(folder(), "holdfast.db");
    const store = SqliteStore.open(path);
    store.commit((rows) => rows.putValue("first", "1"));
    expect(() =>
      store.commit((rows) => {
        rows.putValue("second", "2");
        store.snapshot();
      }),
    ).toThrow("transaction");
    const copy = await saved(store.snapshot());
    store.commit((rows) => rows.putValue("third", "3"));
    store.close();
    const values = SqliteStore.open(copy).load().values;
    expect([values.get("first"), values.get("second"), values.get("third")]).toEqual(["1", undefined, undefined]);
  });
});

async function saved(outcome: SnapshotOutcome): Promise<string> {
  if (outcome.status !== "taken") throw new Error(outcome.status);
  const path = join(folder(), "holdfast.db");
  writeFileSync(path, Buffer.from(await new Response(outcome.content).arrayBuffer()));
  expect(readFileSync(path).length).toBe(outcome.bytes);
  return path;
}
