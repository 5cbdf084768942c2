import { evictDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { afterEach, describe, expect, it, vi } from "vitest";
import type { KeyObjectCommand } from "../../../src/cloudflare/calls/key-calls.ts";
import { RemoteKeys } from "../../../src/cloudflare/calls/remote-keys.ts";
import type { Env } from "../../../src/cloudflare/env.ts";
import { askKey, command, fresh, grantedToken, keyStub, service } from "../support.ts";

/** What happens to a call: it never arrives, or it is carried out and its answer is lost. */
type Mishap = "lost" | "unanswered";

/**
 * Objects behind connections that break. When one does, everything in flight on it fails, and whatever is sent on it
 * later: that is what the platform promises of a stub.
 */
class Network {
  /** Calls that were carried out, in order. */
  readonly arrived: string[] = [];
  /** Runs after a call whose answer is lost has been carried out. */
  afterUnanswered: () => Promise<unknown> = async () => {};
  readonly #mishapOf: (type: string, key: string) => Mishap | undefined;

  constructor(mishapOf: (type: string, key: string) => Mishap | undefined) {
    this.#mishapOf = mishapOf;
  }

  get keys(): RemoteKeys {
    const KEY = { getByName: (key: string) => this.#stub(key), idFromName: (key: string) => key };
    return new RemoteKeys({ ...env, KEY } as unknown as Env);
  }

  #stub(key: string): unknown {
    const broken = Promise.withResolvers<never>();
    broken.promise.catch(() => {});
    let isBroken = false;
    const shatter = () => {
      isBroken = true;
      broken.reject(Object.assign(new Error("Network connection lost."), { retryable: true }));
    };
    // On one connection calls arrive one after the other.
    let way: Promise<unknown> = Promise.resolve();
    const call = (command: KeyObjectCommand) => {
      const carriedOut = way.then(async () => {
        if (isBroken) return undefined;
        const mishap = this.#mishapOf(command.type, key);
        if (mishap === "lost") {
          shatter();
          return undefined;
        }
        this.arrived.push(command.type);
        const answer = await keyStub(key).command(command);
        if (mishap === "unanswered") {
          shatter();
          await this.afterUnanswered();
        }
        return answer;
      });
      way = carriedOut.catch(() => {});
      return Promise.race([broken.promise, carriedOut.then((answer) => (isBroken ? broken.promise : answer))]);
    };
    return { command: call };
  }
}

/** Each kind of call fails this often, and then works. */
function failing(times: Record<string, readonly (Mishap | undefined)[]>, only?: string): Network {
  const left = new Map(Object.entries(times).map(([method, mishaps]) => [method, [...mishaps]]));
  return new Network((method, key) => (only === undefined || key === only ? left.get(method)?.shift() : undefined));
}

afterEach(() => {
  vi.restoreAllMocks();
});

const always = () => true;

describe("calls of one session to one key", () => {
  it.each([
    ["the first never arrives", { enqueue: ["lost"] }],
    ["the first never arrives, twice", { enqueue: ["lost", "lost"] }],
    ["the answer to the first is lost", { enqueue: ["unanswered"] }],
    ["one fails after the other", { enqueue: ["lost"], wait: ["unanswered"] }],
  ] as const)("arrive in order if %s", async (_, times) => {
    for (let round = 0; round < 5; round++) {
      const name = fresh("key");
      await askKey(keyStub(name), { type: "acquire", command: command() });
      const { keys, arrived } = failing(times);
      const { session, leaseSeconds, limit } = command();
      const place = { session, request: fresh("e"), limit, leaseSeconds };
      const wait = { session, request: fresh("w"), waitMs: 60_000, mayWait: true };
      const answers = await Promise.all([
        keys.command(name, { type: "enqueue", command: place }, always),
        keys.command(name, { type: "wait", command: wait }, always),
      ]);
      expect(answers).toEqual([{ status: "queued" }, { status: "queued" }]);
      expect(arrived.indexOf("enqueue")).toBeLessThan(arrived.indexOf("wait"));
    }
  });

  it("wait for one that is being made again, also those that are made meanwhile", async () => {
    const name = fresh("key");
    const session = fresh("session");
    const token = grantedToken(await askKey(keyStub(name), { type: "acquire", command: command({ session }) }));
    const network = failing({ renew: ["lost", "lost"] });
    const { keys } = network;
    const renewing = keys.command(name, { type: "renew", token, leaseSeconds: 60 }, always);
    await scheduler.wait(5);
    const releasing = keys.command(name, { type: "release", token, session, id: fresh("id") }, always);
    expect(await Promise.all([renewing, releasing])).toEqual([
      { status: "renewed", leaseSeconds: 60 },
      { status: "released" },
    ]);
    expect(network.arrived).toEqual(["renew", "release"]);
  });

  it("go on when one has been given up", async () => {
    const name = fresh("key");
    const session = fresh("session");
    const token = grantedToken(await askKey(keyStub(name), { type: "acquire", command: command({ session }) }));
    const { keys } = failing({ renew: ["lost", "lost", "lost"] });
    const renewing = keys.command(name, { type: "renew", token, leaseSeconds: 60 }, always);
    const releasing = keys.command(name, { type: "release", token, session, id: fresh("id") }, always);
    await expect(renewing).rejects.toThrow("Network connection lost.");
    expect(await releasing).toEqual({ status: "released" });
  });

  it("are not made again if nobody wants to know any more, and do not hold up others then", async () => {
    const name = fresh("key");
    const network = failing({ acquire: ["lost"] });
    const { keys } = network;
    const acquiring = keys.command(name, { type: "acquire", command: command() }, () => false);
    const looking = keys.command(name, { type: "fenceOfHolder" }, always);
    await expect(acquiring).rejects.toThrow("Network connection lost.");
    expect(await looking).toEqual({ status: "free" });
    expect(network.arrived).toEqual(["fenceOfHolder"]);
  });

  it("are counted by what came of them, and so are those that are made again", async () => {
    const name = fresh("key");
    const sums = async () => (await service().meter.read()).sums;
    const before = await sums();
    const { keys } = failing({ prolong: ["lost", "lost", "lost", "lost"], watch: ["lost"] });
    const command = { type: "prolong", token: "", session: "", leaseMs: 1_000 } as const;
    await expect(keys.command(name, command, () => false)).rejects.toThrow("Network connection lost.");
    const retriesOf = (now: typeof before) => (now.key_call_retries_total ?? 0) - (before.key_call_retries_total ?? 0);
    expect(retriesOf(await sums())).toBe(0);
    await expect(keys.command(name, command, always)).rejects.toThrow("Network connection lost.");
    await keys.command(name, { type: "watch", session: "" }, always);
    const after = await sums();
    const since = (series: string) => (after[series] ?? 0) - (before[series] ?? 0);
    expect(retriesOf(after)).toBe(3);
    expect(since("rpc_calls_total|prolong|failed")).toBe(2);
    expect(since("rpc_calls_total|watch|answered")).toBe(1);
  });

  it("in trouble do not hold up calls to other keys", async () => {
    const [bad, good] = [fresh("key"), fresh("key")];
    // The longest pauses there are, and they last until the other key has answered.
    vi.spyOn(Math, "random").mockReturnValue(0.99);
    const pause = Promise.withResolvers<void>();
    const wait = scheduler.wait.bind(scheduler);
    vi.spyOn(scheduler, "wait").mockImplementation((ms) => (ms > 50 ? pause.promise : wait(ms)));
    let [isDown, answered] = [true, 0];
    const { keys } = new Network((_, key) => (key === bad && isDown ? "lost" : undefined));
    const look = (key: string) => keys.command(key, { type: "fenceOfHolder" }, always);
    const troubled = Array.from({ length: 40 }, () => look(bad).finally(() => (answered += 1)));
    await look(good);
    expect(answered).toBe(0);
    isDown = false;
    pause.resolve();
    const outcomes = await Promise.allSettled(troubled);
    expect(outcomes.at(-1)).toEqual({ status: "fulfilled", value: { status: "free" } });
  });
});

describe("a call whose answer is lost is made again, and gets the first one's answer", () => {
  /** `a` holds the key, and `b` waits for it. */
  async function held() {
    const name = fresh("key");
    const session = fresh("session");
    const token = grantedToken(await askKey(keyStub(name), { type: "acquire", command: command({ session }) }));
    await askKey(keyStub(name), { type: "acquire", command: command({ waitMs: 60_000 }) });
    return { name, session, token };
  }

  it.each([
    ["and the next waiter has the slot", false],
    ["and the key has slept meanwhile", true],
  ])("a release, %s", async (_, isEvicted) => {
    const { name, session, token } = await held();
    const network = failing({ release: ["unanswered", "unanswered"] });
    if (isEvicted) network.afterUnanswered = () => evictDurableObject(keyStub(name));
    const release = { type: "release", token, session } as const;
    const { keys } = network;
    expect(await keys.command(name, { ...release, id: fresh("id") }, always)).toEqual({ status: "released" });
    expect(network.arrived).toEqual(["release", "release", "release"]);
    expect(await keys.command(name, { ...release, id: fresh("id") }, always)).toEqual({ status: "not_held" });
  });

  it("a release of the only holder, stored as one record", async () => {
    const name = fresh("key");
    const token = grantedToken(await askKey(keyStub(name), { type: "acquire", command: command({ session: "s" }) }));
    const network = failing({ giveBack: ["unanswered"] });
    network.afterUnanswered = () => evictDurableObject(keyStub(name));
    const id = fresh("id");
    expect(await network.keys.command(name, { type: "giveBack", token, session: "s", id })).toEqual({
      status: "released",
    });
    // The session tries, too, if it never hears that it was given back.
    expect(await askKey(keyStub(name), { type: "release", token, session: "s", id })).toEqual({ status: "released" });
  });

  it("a removal of any hold, which the next holder survives", async () => {
    const name = fresh("key");
    const claim = () => {
      const owner = fresh("file");
      const sessionless = { kind: "file", note: owner };
      return askKey(keyStub(name), {
        type: "claim",
        command: { session: owner, request: owner, leaseSeconds: 60, waitMs: 0, sessionless },
      });
    };
    await claim();
    const network = failing({ remove: ["unanswered"] });
    network.afterUnanswered = async () => {
      await evictDurableObject(keyStub(name));
      expect((await claim()).status).toBe("granted");
    };
    expect(
      await network.keys.command(name, { type: "remove", selector: { kind: "file", which: { by: "any" } } }),
    ).toEqual({ status: "removed" });
    expect(network.arrived).toEqual(["remove", "remove"]);
    expect(await askKey(keyStub(name), { type: "current" })).toBeDefined();
  });
});
