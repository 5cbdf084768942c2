/** The whole service over real sockets. */
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { connect } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, describe, expect, it, vi } from "vitest";
import { type RunningService, serve } from "../../src/node/index.ts";
import { systemRuntime } from "../../src/node/system/runtime.ts";
import { type Timed, Timers } from "../../src/node/timers.ts";
import { poll } from "../support/poll.ts";
import { WsClient } from "../support/wire-client.ts";

const anyPort = { host: "127.0.0.1", port: 0 };
const running: RunningService[] = [];
const logs: string[][] = [];

async function start(variables: Readonly<Record<string, string>> = {}): Promise<RunningService> {
  const log: string[] = [];
  const write = (text: string) => void log.push(text);
  const service = await serve({ dataDir: ":memory:", tcp: anyPort, http: anyPort, variables, log: write });
  running.push(service);
  logs.push(log);
  return service;
}

afterEach(async () => {
  for (const service of running.splice(0)) await service.stop();
  logs.splice(0);
});

describe("two services in one process", () => {
  it("share neither keys, nor metrics, nor sessions", async () => {
    const [one, other] = [await start(), await start({ AUTH_TOKEN: "secret" })];
    const session = await post(one, "/v1/sessions");
    const id = Object.values((await session.json()) as Record<string, unknown>).find(
      (value) => typeof value === "string",
    );
    expect((await put(one, "/v1/files/k", "owner")).status).toBeLessThan(300);
    expect((await get(one, "/v1/files/k")).status).toBe(200);
    const auth = { Authorization: "Bearer secret" };
    expect((await get(other, "/v1/files/k")).status).toBe(401);
    expect((await get(other, "/v1/files/k", auth)).status).toBe(404);
    expect(id).toMatch(/^[0-9a-f]{32}$/);
    const [first, second] = [
      await (await get(one, "/metrics")).text(),
      await (await get(other, "/metrics", auth)).text(),
    ];
    expect(first).toMatch(/grants_total\{[^}]*\} 1/);
    expect(second).not.toMatch(/grants_total\{[^}]*\} 1/);
  });
});

describe("a program with a service in it", () => {
  it("keeps its own Request and Response", async () => {
    const before = [globalThis.Request, globalThis.Response];
    const service = await start();
    const reply = await get(service, "/health");
    expect(reply.status).toBe(200);
    expect([globalThis.Request, globalThis.Response]).toEqual(before);
    // Another test of this process may have started a service before: a class that replaces Node's own extends it.
    expect(before.map((each) => Object.getPrototypeOf(each))).toEqual([Function.prototype, Function.prototype]);
  });
});

describe("an upgrade", () => {
  it("is counted as 101, and one that is refused as what it was answered", async () => {
    const service = await start();
    const socket = new WebSocket(`ws://127.0.0.1:${service.httpPort}/v1/ws`);
    await once(socket, "open");
    socket.close();
    const metrics = await poll("the upgrade to be counted", 5_000, async () => {
      const text = await (await get(service, "/metrics")).text();
      return /http_requests_total\{[^}]*101[^}]*\} 1/.test(text) ? text : undefined;
    });
    expect(metrics).not.toMatch(/http_requests_total\{[^}]*500/);
  });
});

describe("a client that hangs up while it waits for a file lock", () => {
  it("is out of the queue at once", async () => {
    const service = await start();
    expect((await put(service, "/v1/files/k", "holder")).status).toBeLessThan(300);
    const socket = connect(service.httpPort, "127.0.0.1");
    socket.on("error", () => {});
    socket.write(
      "PUT /v1/files/k?wait=60 HTTP/1.1\r\nHost: localhost\r\nIf-None-Match: *\r\nContent-Length: 5\r\n\r\nother",
    );
    const waiters = async () => {
      const stats = (await (await get(service, "/v1/stats")).json()) as { locks: { waiters: number }[] };
      return stats.locks[0]?.waiters;
    };
    await poll("a waiter", 5_000, async () => ((await waiters()) === 1 ? true : undefined));
    socket.destroy();
    await poll("nobody waiting", 5_000, async () => ((await waiters()) === 0 ? true : undefined));
  });
});

describe("a service that is stopped", () => {
  it("answers over HTTP whatever it has stored", async () => {
    const directory = mkdtempSync(join(tmpdir(), "holdfast-stop-"));
    const open = () => serve({ dataDir: directory, tcp: anyPort, http: anyPort, log: () => {} });
    try {
      let stored = 0;
      for (let round = 0; round < 24; round += 1) {
        const service = await open();
        const socket = connect({ port: service.httpPort, host: "127.0.0.1", noDelay: true });
        let heard = "";
        socket.setEncoding("utf8").on("data", (text: string) => {
          heard += text;
        });
        socket.on("error", () => {});
        await once(socket, "connect");
        const closed = new Promise<void>((resolve) => socket.once("close", () => resolve()));
        const head = `PUT /v1/files/k${round} HTTP/1.1\r\nHost: localhost\r\nIf-None-Match: *\r\nContent-Length: 5\r\n\r\n`;
        socket.write(`${head}owner`);
        // It is stopped in each of the turns in which the request may be.
        for (let turn = 0; turn < round % 8; turn += 1) await new Promise<void>((resolve) => setImmediate(resolve));
        await service.stop();
        await closed;
        const again = await open();
        const isStored = (await get(again, `/v1/files/k${round}`)).status === 200;
        await again.stop();
        if (isStored) stored += 1;
        if (isStored) expect(heard).toMatch(/^HTTP\/1.1 20[0-9]/);
      }
      expect(stored).toBeGreaterThan(0);
    } finally {
      rmSync(directory, { recursive: true });
    }
  });
});

describe("a WebSocket of a service that is stopped", () => {
  it.each(["stop", "kill"] as const)("is closed with 1012 by %s, and its lock stays", async (end) => {
    const directory = mkdtempSync(join(tmpdir(), "holdfast-restart-"));
    const open = () => serve({ dataDir: directory, tcp: anyPort, http: anyPort, log: () => {} });
    try {
      const service = await open();
      const holder = await WsClient.open(service.httpPort);
      holder.send("l\nk\n0\n");
      const token = (await holder.next()).split(" ")[1];
      await service[end]();
      expect((await holder.closed()).code).toBe(1012);
      const again = await open();
      const other = await WsClient.open(again.httpPort);
      other.send(`n\nk\n${token} 5\n`);
      expect(await other.next()).toBe("ok 5\n");
      await again.stop();
    } finally {
      rmSync(directory, { recursive: true });
    }
  });
});

describe("the machine's clock", () => {
  it("that is set back by an hour delays nothing", async () => {
    const real = Date.now;
    let offset = 0;
    const clock = vi.spyOn(Date, "now").mockImplementation(() => real.call(Date) + offset);
    try {
      const runtime = systemRuntime();
      const timers = new Timers(runtime, (command) => command());
      const fired = Promise.withResolvers<number>();
      const startedAt = performance.now();
      const subject: Timed = {
        dueAt: runtime.now() + 300,
        scheduledAt: Number.POSITIVE_INFINITY,
        fire() {
          Object.assign(subject, { dueAt: Number.POSITIVE_INFINITY });
          fired.resolve(performance.now() - startedAt);
        },
      };
      timers.schedule(subject);
      const before = runtime.now();
      offset = -3_600_000;
      expect(runtime.now()).toBeGreaterThanOrEqual(before);
      expect(await fired.promise).toBeLessThan(2_000);
      timers.pause();
    } finally {
      clock.mockRestore();
    }
  });
});

function url({ httpPort }: RunningService, path: string): string {
  return `http://127.0.0.1:${httpPort}${path}`;
}

const get = (service: RunningService, path: string, headers: Record<string, string> = {}) =>
  fetch(url(service, path), { headers });
const post = (service: RunningService, path: string) => fetch(url(service, path), { method: "POST" });
const put = (service: RunningService, path: string, body: string) =>
  fetch(url(service, path), { method: "PUT", body, headers: { "If-None-Match": "*" } });
