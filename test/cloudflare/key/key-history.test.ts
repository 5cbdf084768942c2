import { evictDurableObject, runInDurableObject } from "cloudflare:test";
import { afterEach, beforeEach, describe, expect, it, type MockInstance, vi } from "vitest";
import type { AcquireCommand } from "../../../src/core/engine/index.ts";
import { scriptSessions } from "../listeners.ts";
import {
  askKey,
  command,
  fresh,
  grantedToken,
  keyStub,
  listed,
  PRUNED_AFTER_MS,
  runAlarm,
  storedIn,
  WAIT,
} from "../support.ts";

const WHOLE = { detail: true, history: true };

let start: number;
beforeEach(() => {
  start = Date.now();
  vi.useFakeTimers({ toFake: ["Date"], now: start });
});
afterEach(() => {
  vi.restoreAllMocks();
  vi.useRealTimers();
});

/** Sets the clock to so many seconds after the beginning. */
const at = (seconds: number) => vi.setSystemTime(start + seconds * 1000);
const fenceOf = (token: string) => token.slice(0, 16);

/** A key of its own with as many slots as told, all but one of them taken for good. */
class Story {
  readonly name = fresh("key");
  readonly #limit: number;
  readonly #scripts = scriptSessions();

  constructor(limit: number) {
    this.#limit = limit;
  }

  get stub() {
    return keyStub(this.name);
  }

  async fill(): Promise<this> {
    for (let taken = 1; taken < this.#limit; taken += 1) await this.hold("bystander", { leaseSeconds: 3_600 });
    return this;
  }

  async hold(session: string, options: Partial<AcquireCommand> = {}): Promise<string> {
    return grantedToken(
      await askKey(this.stub, { type: "acquire", command: command({ limit: this.#limit, session, ...options }) }),
    );
  }

  /** Joins the queue. Its grant is left lying until the story picks it up. */
  async join(session: string, options: Partial<AcquireCommand> = {}): Promise<void> {
    this.#scripts.set(session, { deliver: () => "later" });
    const request = `${session}-l`;
    const outcome = await askKey(this.stub, {
      type: "acquire",
      command: command({ ...WAIT, limit: this.#limit, session, request, ...options }),
    });
    expect(outcome.status).toBe("queued");
  }

  async pickUp(session: string): Promise<string> {
    return grantedToken(await askKey(this.stub, { type: "pickUp", request: `${session}-l` }));
  }

  /** The grants that are told of, the bystanders' left out. */
  async grants() {
    const { history } = (await this.stub.describe(WHOLE)) ?? {};
    return history?.grants.filter(({ session }) => session !== "bystander");
  }
}

describe.each([
  ["a lock", 1],
  ["a semaphore", 3],
])("the history of %s", (_, limit) => {
  const story = () => new Story(limit).fill();

  it("is told to who asks for it, with the key's own time", async () => {
    const { stub, name } = await story();
    await askKey(stub, { type: "acquire", command: command({ limit }) });
    expect(await stub.describe({ detail: true })).not.toHaveProperty("history");
    at(3);
    expect((await stub.describe(WHOLE))?.history).toMatchObject({ now: start + 3_000 });
    expect(await keyStub(`not ${name}`).describe(WHOLE)).toBeNull();
  });

  it("tells a grant at once, and its release", async () => {
    const key = await story();
    const token = await key.hold("a");
    const grant = { fence: fenceOf(token), session: "a", grantedAt: start, waitedMs: 0, end: undefined };
    expect(await key.grants()).toEqual([grant]);
    at(4);
    await askKey(key.stub, { type: "release", token, session: "a" });
    expect(await key.grants()).toEqual([{ ...grant, end: { reason: "released", heldMs: 4_000 } }]);
  });

  it("tells how long a grant was waited for, and begins it with the promotion", async () => {
    const key = await story();
    const first = await key.hold("a");
    at(1);
    await key.join("b");
    at(3);
    await askKey(key.stub, { type: "release", token: first, session: "a" });
    const [released] = (await key.grants()) ?? [];
    expect(released).toMatchObject({ session: "a", end: { reason: "released", heldMs: 3_000 } });
    at(3.5);
    const token = await key.pickUp("b");
    at(10);
    const grant = { fence: fenceOf(token), session: "b", grantedAt: start + 3_000, waitedMs: 2_000, end: undefined };
    expect(await key.grants()).toEqual([released, grant]);
  });

  it("tells the end of a lease, at that moment, to the first who looks", async () => {
    const key = await story();
    await key.hold("a", { leaseSeconds: 5 });
    at(9);
    expect(await key.grants()).toMatchObject([{ session: "a", end: { reason: "expired", heldMs: 5_000 } }]);
  });

  it("tells what was stolen, left behind and withdrawn", async () => {
    const key = await story();
    const stolen = await key.hold("a");
    at(1);
    await askKey(key.stub, { type: "steal", fence: fenceOf(stolen) });
    await key.hold("b");
    at(3);
    await askKey(key.stub, { type: "leave", session: "b", keepsReported: false });
    await key.hold("c", { request: "c-l" });
    at(6);
    await askKey(key.stub, { type: "cancel", request: "c-l" });
    expect(await key.grants()).toMatchObject([
      { session: "a", end: { reason: "stolen", heldMs: 1_000 } },
      { session: "b", end: { reason: "disconnect", heldMs: 2_000 } },
      { session: "c", end: { reason: "gone", heldMs: 3_000 } },
    ]);
  });

  it("tells the end of a grant whose client had left when it was told of it", async () => {
    const key = await story();
    const first = await key.hold("a");
    await key.join("b");
    await key.join("c");
    await askKey(key.stub, { type: "release", token: first, session: "a" });
    await askKey(key.stub, { type: "leave", session: "b", keepsReported: false });
    await key.pickUp("c");
    expect(await key.grants()).toMatchObject([
      { session: "a" },
      { session: "b", end: { reason: "disconnect" } },
      { session: "c", end: undefined },
    ]);
  });

  it("tells nothing of a grant that could not be stored", async () => {
    const key = await story();
    const token = await key.hold("a");
    await askKey(key.stub, { type: "release", token, session: "a" });
    await runInDurableObject(key.stub, async (object, { storage }) => {
      const full = () => {
        throw new Error("disk full");
      };
      const write = limit === 1 ? vi.spyOn(storage.kv, "put") : vi.spyOn(storage.sql, "exec");
      (write as MockInstance).mockImplementationOnce(full);
      await expect(askKey(object, { type: "acquire", command: command({ limit }) })).rejects.toThrow("disk full");
      write.mockRestore();
    });
    expect(await key.grants()).toMatchObject([{ fence: fenceOf(token), end: { reason: "released" } }]);
  });

  it("after an eviction is that of the holds that stand, and goes on from there", async () => {
    const key = await story();
    const first = await key.hold("a");
    await key.join("b", { leaseSeconds: 600 });
    at(2);
    await askKey(key.stub, { type: "release", token: first, session: "a" });
    const token = await key.pickUp("b");
    await evictDurableObject(key.stub);
    at(3);
    const { history } = (await key.stub.describe(WHOLE)) ?? {};
    expect(history?.grants.filter(({ session }) => session === "bystander")).toEqual(
      Array.from({ length: limit - 1 }, () => expect.objectContaining({ grantedAt: start, waitedMs: 0 })),
    );
    // How long it waited is known no more, and nobody makes it up.
    const known = { fence: fenceOf(token), session: "b", grantedAt: start + 2_000, waitedMs: undefined };
    expect(await key.grants()).toEqual([{ ...known, end: undefined }]);
    at(7);
    await askKey(key.stub, { type: "release", token, session: "b" });
    expect(await key.grants()).toEqual([{ ...known, end: { reason: "released", heldMs: 5_000 } }]);
  });

  it("begins again when the key is forgotten", async () => {
    const key = new Story(limit);
    await askKey(key.stub, { type: "release", token: await key.hold("a"), session: "a" });
    await listed(key.name);
    at(PRUNED_AFTER_MS / 1000);
    await runAlarm(key.name);
    expect(await storedIn(key.stub)).toEqual([]);
    expect(await key.stub.describe(WHOLE)).toBeNull();
    await key.hold("b");
    expect((await key.grants())?.map(({ session }) => session)).toEqual(["b"]);
  });
});

describe("no more than two hundred grants are remembered, the newest", () => {
  it("of a lock", async () => {
    const { stub } = new Story(1);
    const fences: string[] = [];
    for (let cycle = 0; cycle < 203; cycle += 1) {
      const token = grantedToken(await askKey(stub, { type: "acquire", command: command() }));
      fences.push(fenceOf(token));
      await askKey(stub, { type: "release", token, session: "" });
    }
    const { history } = (await stub.describe(WHOLE)) ?? {};
    expect(history?.grants.map(({ fence }) => fence)).toEqual(fences.slice(3));
  });

  it("of a semaphore with more holders than that, also after an eviction", async () => {
    const key = new Story(300);
    const tokens: string[] = [];
    for (let n = 0; n < 203; n += 1) {
      at(n);
      tokens.push(await key.hold(`s${n}`, { leaseSeconds: 3_600 }));
    }
    const newest = Array.from({ length: 200 }, (_, n) => `s${n + 3}`);
    const sessions = async () => (await key.grants())?.map(({ session }) => session);
    expect(await sessions()).toEqual(newest);
    await evictDurableObject(key.stub);
    expect(await sessions()).toEqual(newest);
    // One that was forgotten ends, and one that was not.
    for (const n of [0, 3]) await askKey(key.stub, { type: "release", token: tokens[n] ?? "", session: "" });
    expect(await sessions()).toEqual(newest);
    expect((await key.grants())?.filter(({ end }) => end)).toMatchObject([{ session: "s3" }]);
  });
});

it("labels are remembered when they are brought, for the grants that are known", async () => {
  const key = new Story(2);
  await askKey(key.stub, { type: "release", token: await key.hold("a"), session: "a" });
  await key.hold("b");
  await key.stub.rememberLabels({ labels: { a: "nightly", somebody: "else" } });
  await key.hold("a");
  expect((await key.grants())?.map(({ session, label }) => [session, label])).toEqual([
    ["a", "nightly"],
    ["b", undefined],
    ["a", undefined],
  ]);
});
