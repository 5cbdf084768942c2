/** What a client waits for: never for the directory or for metrics, which may be on another continent. Here neither answers. */
import { evictDurableObject, reset } from "cloudflare:test";
import { exports } from "cloudflare:workers";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { DirectoryObject } from "../../../src/cloudflare/directory/directory-object.ts";
import type { LocksBinding } from "../../../src/cloudflare/locks/binding.ts";
import { MetricsObject } from "../../../src/cloudflare/metrics/metrics-object.ts";
import { pass, stopClock } from "../clock.ts";
import { RestClient, tokenIn } from "../rest.ts";
import { Client, fresh, keyStub, listed, never, tokenOf, until } from "../support.ts";

const ASKED = ["listKey", "unlistKey", "admitKey", "openSession", "closeSession", "relabel", "labelsOf"] as const;

function silence(): void {
  for (const method of ASKED) vi.spyOn(DirectoryObject.prototype, method).mockImplementation(() => never());
  vi.spyOn(MetricsObject.prototype, "report").mockImplementation(() => never());
}

beforeEach(silence);
afterEach(async () => {
  vi.restoreAllMocks();
  vi.useRealTimers();
  await reset();
});

const binding = exports.Locks as unknown as LocksBinding;

describe("with a directory and metrics that do not answer", () => {
  it("a client connects, takes a new key, renews it and gives it back", async () => {
    const [client, key] = [await Client.open(), fresh("key")];
    const token = tokenOf(await client.ask(`l\n${key}\n0\n`));
    expect(await client.ask(`n\n${key}\n${token} 30\n`)).toBe("ok 30");
    expect(await client.ask(`r\n${key}\n${token}\n`)).toBe("ok");
    tokenOf(await client.ask(`l\n${key}\n0\n`));
    client.close();
  });

  it("a key that nobody used for an hour is granted", async () => {
    vi.restoreAllMocks();
    stopClock();
    const [client, key] = [await Client.open(), fresh("key")];
    const first = tokenOf(await client.ask(`l\n${key}\n0\n`));
    await listed(key);
    expect(await client.ask(`r\n${key}\n${first}\n`)).toBe("ok");
    silence();
    pass(3_600_000);
    await evictDurableObject(keyStub(key));
    expect(first < tokenOf(await client.ask(`l\n${key}\n0\n`))).toBe(true);
    client.close();
  });

  it("a lock is handed over", async () => {
    const [holder, waiter, key] = [await Client.open(), await Client.open(), fresh("key")];
    const token = tokenOf(await holder.ask(`l\n${key}\n0\n`));
    waiter.send(`l\n${key}\n30\n`);
    await until(async () => (await keyStub(key).describe())?.waiters === 1);
    expect(await holder.ask(`r\n${key}\n${token}\n`)).toBe("ok");
    tokenOf(await waiter.line());
    for (const client of [holder, waiter]) client.close();
  });

  it("a REST session is opened, takes a lock at once and after a wait, gives it back, and ends", async () => {
    const [one, other, key] = [await RestClient.open(), await RestClient.open(), fresh("key")];
    const token = tokenIn(await one.acquire(key));
    const waiting = other.acquire(key, 30);
    await until(async () => (await keyStub(key).describe())?.waiters === 1);
    expect((await one.release(key, token)).status).toBe(204);
    expect((await other.release(key, tokenIn(await waiting))).status).toBe(204);
    for (const client of [one, other]) expect((await client.end()).status).toBe(204);
  });

  it("a Worker with a binding takes a lock and gives it back", async () => {
    const key = fresh("key");
    const lock = await binding.acquire(key);
    expect(await binding.renew(key, lock?.token ?? "", { lease: 30_000 })).toMatchObject({ remaining: 30_000 });
    expect(await binding.release(key, lock?.token ?? "")).toBe(true);
  });
});
