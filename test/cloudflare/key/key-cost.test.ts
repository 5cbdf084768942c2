import { runInDurableObject } from "cloudflare:test";
import { afterEach, describe, expect, it, vi } from "vitest";
import type { NoticeAnswer } from "../../../src/core/engine/index.ts";
import type { Notice } from "../../../src/core/session/effects.ts";
import { eager, scriptSessions } from "../listeners.ts";
import { askKey, command, fresh, grantedToken, keyStub, listed, rowsWritten, until, WAIT } from "../support.ts";

afterEach(() => {
  vi.restoreAllMocks();
  vi.useRealTimers();
});

describe("what a command costs", () => {
  it("an uncontended acquire writes one row and a release one row, and the alarm stands still", async () => {
    const stub = keyStub(fresh("key"));
    await askKey(stub, {
      type: "release",
      token: grantedToken(await askKey(stub, { type: "acquire", command: command() })),
      session: "",
    });
    await runInDurableObject(stub, async (key, state) => {
      for (let cycle = 0; cycle < 3; cycle++) {
        let held = "";
        const acquire = await rowsWritten(state, async () => {
          held = grantedToken(await askKey(key, { type: "acquire", command: command() }));
        });
        const renew = await rowsWritten(state, () => askKey(key, { type: "renew", token: held, leaseSeconds: 60 }));
        const release = await rowsWritten(state, () => askKey(key, { type: "release", token: held, session: "" }));
        expect({ acquire, renew, release }).toEqual({ acquire: 1, renew: 1, release: 1 });
      }
    });
  });

  it("a semaphore slot costs what a lock costs", async () => {
    const stub = keyStub(fresh("key"));
    const tokens = [
      grantedToken(await askKey(stub, { type: "acquire", command: command({ limit: 3 }) })),
      grantedToken(await askKey(stub, { type: "acquire", command: command({ limit: 3 }) })),
    ];
    await askKey(stub, { type: "release", token: tokens[1] ?? "", session: "" });
    await runInDurableObject(stub, async (key, state) => {
      expect(await rowsWritten(state, () => askKey(key, { type: "acquire", command: command({ limit: 3 }) }))).toBe(1);
    });
  });

  it("a try on a held key, a wrong token and a description write nothing", async () => {
    const stub = keyStub(fresh("key"));
    await askKey(stub, { type: "acquire", command: command() });
    await runInDurableObject(stub, async (key, state) => {
      const rows = await rowsWritten(state, async () => {
        await askKey(key, { type: "acquire", command: command() });
        await askKey(key, { type: "release", token: "0".repeat(32), session: "" });
        await askKey(key, { type: "renew", token: "0".repeat(32), leaseSeconds: 5 });
        await key.describe({ detail: true, history: true });
        key.rememberLabels({ labels: { somebody: "here" } });
      });
      expect(rows).toBe(0);
    });
  });

  it("a hand-over is one call, and nothing is written after the release", async () => {
    const scripts = scriptSessions();
    const name = fresh("key");
    const stub = keyStub(name);
    const heard: Notice[] = [];
    scripts.set("waiter", {
      deliver(notice): NoticeAnswer {
        heard.push(notice);
        return "taken";
      },
    });
    const first = grantedToken(await askKey(stub, { type: "acquire", command: command() }));
    await listed(name);
    await askKey(stub, { type: "acquire", command: command({ ...WAIT, session: "waiter" }) });
    const rows = await runInDurableObject(stub, (key, state) =>
      rowsWritten(state, () => askKey(key, { type: "release", token: first, session: "" })),
    );
    // The slot, the waiter, and the alarm that would repeat the notice.
    expect(rows).toBe(3);
    await until(() => heard.length > 0);
    const stored = () =>
      runInDurableObject(stub, (_, { storage }) => [
        storage.sql.exec<{ token: string }>("SELECT * FROM slots").toArray(),
        storage.sql.exec("SELECT * FROM waiters").toArray(),
      ]);
    const [slots, waiters] = await stored();
    expect([slots?.[0]?.token, waiters]).toEqual([heard[0]?.offer?.token, []]);
    expect(await stored()).toEqual([slots, []]);
    expect(heard).toHaveLength(1);
  });

  it("joining, leaving and being granted cost the same rows in front of ten waiters and of ten thousand", async () => {
    const scripts = scriptSessions();
    const name = fresh("key");
    const stub = keyStub(name);
    const granted: string[] = [];
    scripts.set("waiter", eager(name, "waiter", granted));
    const first = grantedToken(await askKey(stub, { type: "acquire", command: command() }));
    await listed(name);
    const costs = await runInDurableObject(stub, async (key, state) => {
      const cost = async () => {
        const request = fresh("request");
        const join = await rowsWritten(state, () =>
          askKey(key, { type: "acquire", command: command({ ...WAIT, session: "other", request }) }),
        );
        const leave = await rowsWritten(state, () => askKey(key, { type: "cancel", request }));
        return { join, leave };
      };
      for (let n = 0; n < 10; n++)
        await askKey(key, { type: "acquire", command: command({ ...WAIT, session: "waiter" }) });
      const few = await cost();
      for (let n = 10; n < 10_000; n++)
        await askKey(key, { type: "acquire", command: command({ ...WAIT, session: "waiter" }) });
      const many = await cost();
      return { few, many };
    });
    expect(costs.many).toEqual(costs.few);
    expect(costs.few).toEqual({ join: 1, leave: 1 });

    let last = first;
    const perGrant: number[] = [];
    for (let n = 0; n < 20; n++) {
      const rows = await runInDurableObject(stub, (key, state) =>
        rowsWritten(state, () => askKey(key, { type: "release", token: last, session: "" })),
      );
      await until(() => granted.length > n, { timeout: 5_000, interval: 1 });
      last = granted[n]?.split(":")[1] ?? "";
      perGrant.push(rows);
    }
    // One row for the slot, one of the waiter that is deleted; now and then one for the alarm that repeats a notice.
    expect(Math.max(...perGrant)).toBeLessThanOrEqual(3);
    expect((await stub.describe())?.waiters).toBe(9_980);
  });
});
