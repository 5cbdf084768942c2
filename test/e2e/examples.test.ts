/** The programs of examples/, as their users run them. */
import { execFile } from "node:child_process";
import { rmSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { connect } from "../../src/client/index.ts";
import { startWorker, type TestWorker } from "../support/cloudflare-server.ts";
import { poll } from "../support/poll.ts";
import { startServer, type TestServer } from "../support/server.ts";
import { storageFolder } from "../support/storage.ts";
import { bundleWorker } from "../support/worker.ts";

const ADMIN = "the operator's token";
const NIGHTLY = fileURLToPath(new URL("../../examples/node/nightly.ts", import.meta.url));
const run = promisify(execFile);

let server: TestServer;
beforeAll(async () => {
  server = await startServer({ variables: { ADMIN_TOKEN: ADMIN } });
});
afterAll(() => server.stop());
const url = () => `http://127.0.0.1:${server.httpPort}`;
const nightly = () => run(process.execPath, [NIGHTLY, url()], { timeout: 30_000 });

describe("the nightly job", () => {
  it("is left to whoever does it already", async () => {
    await using locks = connect(url());
    await using _lock = await locks.acquire("nightly");
    const outputs = await Promise.all([nightly(), nightly()]);
    for (const { stdout } of outputs) expect(stdout).toBe("somebody else does it\n");
  });

  it("is done by who finds it undone", async () => {
    expect((await nightly()).stdout).toMatch(/^started with fence [0-9a-f]{16}\ndone\n$/);
  });

  it("stops when its lock is taken away", async () => {
    await using admin = connect(url(), { token: ADMIN });
    const job = nightly().catch((error: { code: number; stdout: string }) => error);
    await poll("the job to start", 10_000, async () => (await admin.query("nightly"))?.holders === 1 || undefined);
    await using _stolen = await admin.acquire("nightly", { steal: true });
    expect(await job).toMatchObject({ code: 1, stdout: expect.stringContaining("stopped: nightly is lost: stolen\n") });
  });
});

describe("the Worker with a lock of its own", () => {
  const folder = storageFolder();
  let workers: TestWorker;
  beforeAll(async () => {
    const script = join(folder, "pages.js");
    await bundleWorker(fileURLToPath(new URL("../../examples/own-key/index.ts", import.meta.url)), script);
    const objects = [{ name: "LOCK_KEY", class_name: "LockKey" }];
    workers = await startWorker({
      neighbours: [{ name: "pages", script, compatibilityFlags: [], objects, services: {} }],
    });
  });
  afterAll(async () => {
    await workers?.stop();
    rmSync(folder, { recursive: true, force: true });
  });

  it("makes a page once, however many ask for it at once", async () => {
    const url = `http://127.0.0.1:${workers.portOf("pages")}/news`;
    const pages = await Promise.all(Array.from({ length: 6 }, async () => (await fetch(url)).text()));
    expect(pages[0]).toMatch(/^\/news of [0-9a-f]{16}$/);
    expect(new Set(pages).size).toBe(1);
  });
});

describe("the Worker with a service binding", () => {
  const folder = storageFolder();
  let workers: TestWorker;
  beforeAll(async () => {
    const script = join(folder, "ledger.js");
    await bundleWorker(fileURLToPath(new URL("../../examples/worker/index.ts", import.meta.url)), script);
    const objects = [{ name: "LEDGER", class_name: "Ledger" }];
    const services = { LOCKS: { service: "main", entrypoint: "Locks" } };
    const ledger = { name: "ledger", script, compatibilityFlags: [], objects, services };
    workers = await startWorker({ neighbours: [ledger] });
  });
  afterAll(async () => {
    await workers?.stop();
    rmSync(folder, { recursive: true, force: true });
  });
  const ask = (path: string, init?: RequestInit) => fetch(`http://127.0.0.1:${workers.portOf("ledger")}/${path}`, init);
  const add = (path: string, amount: number) => ask(path, { method: "POST", body: String(amount) });

  it("loses no change, however many come at once", async () => {
    const replies = await Promise.all(Array.from({ length: 8 }, () => add("many", 5)));
    expect(replies.map(({ status }) => status)).toEqual(Array(8).fill(200));
    for (const reply of replies) await reply.text();
    expect(await (await ask("many")).json()).toEqual({ balance: 40 });
  });

  it("says that it is busy while another client holds the lock", async () => {
    await using locks = connect(`http://127.0.0.1:${workers.httpPort}`);
    await using _lock = await locks.acquire("ledger:busy");
    const reply = await add("busy", 1);
    expect([reply.status, await reply.text()]).toEqual([503, "busy"]);
  });
});
