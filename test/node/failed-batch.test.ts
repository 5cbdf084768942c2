/** A batch that fails has not happened, whatever it had begun: nobody is told of it, nobody is left hanging. */
import { describe, expect, it } from "vitest";
import type { Client } from "./support/world.ts";
import { ARRIVAL, credentialOf, World } from "./support/world.ts";

const KEYS = 40;

describe("what a failed batch has left to do", () => {
  it("is not done: no waiter is told of a grant that was never stored", () => {
    const world = new World();
    const { runtime, store } = world;
    const { holder, waiters, tokens } = contended(world);
    // The batch is cut before all waiters have heard.
    runtime.msPerLook = 30;
    store.fails = true;
    releaseAll(holder, tokens);
    runtime.endTurn();
    store.fails = false;
    runtime.msPerLook = 0;
    runtime.advance(3_000);
    const other = world.connect();
    for (let key = 0; key < KEYS; key += 1) other.ask("n", `k${key}`, tokens[key]);
    runtime.settle();
    expect(other.lines.filter((line) => line === "ok 33").length).toBe(KEYS);
    expect(waiters.flatMap(({ lines }) => lines)).toEqual([]);
  });

  it("is not done: nobody is told of a loss that did not happen", () => {
    const world = new World({ ADMIN_TOKEN: "secret-admin" });
    const { runtime, store } = world;
    const holders = Array.from({ length: KEYS }, () => world.connect());
    for (const [index, holder] of holders.entries()) {
      holder.ask("watch", "_", "lost");
      holder.ask("l", `k${index}`, "10");
    }
    runtime.settle();
    const admin = world.connect({ rights: { scope: undefined, isAdmin: true }, isAuthenticated: true });
    runtime.settle();
    runtime.msPerLook = 30;
    store.fails = true;
    admin.askAll(holders.map((_, index) => [`@${index} steal`, `k${index}`, "1"] as const));
    runtime.endTurn();
    store.fails = false;
    runtime.msPerLook = 0;
    runtime.advance(3_000);
    expect(holders.flatMap(({ lines }) => lines.filter((line) => line.startsWith("! lost")))).toEqual([]);
  });

  it("leaves what others asked meanwhile: it is carried out once, and answered", () => {
    const world = new World();
    const { runtime, store } = world;
    const { holder, tokens } = contended(world);
    const bystanders = Array.from({ length: KEYS }, () => world.connect());
    runtime.settle();
    runtime.msPerLook = 30;
    store.fails = true;
    releaseAll(holder, tokens);
    for (const bystander of bystanders) bystander.ask("ping");
    runtime.endTurn();
    store.fails = false;
    runtime.msPerLook = 0;
    runtime.advance(3_000);
    const answered = bystanders.filter(({ lines }) => lines.length === 1 && lines[0] === "ok");
    const cut = bystanders.filter(({ closedWith }) => closedWith === 1012);
    expect(answered.length + cut.length).toBe(KEYS);
    expect(answered.length).toBeGreaterThan(0);
  });

  it("stays to be done if it follows from an earlier batch, which was stored", () => {
    const world = new World();
    const { runtime, store } = world;
    const { holder, waiters, tokens } = contended(world);
    runtime.msPerLook = 30;
    releaseAll(holder, tokens);
    // The first batch is stored; what it has left to say is said in the next one, which fails.
    runtime.endTurn();
    const told = waiters.filter(({ lines }) => lines.length > 0).length;
    expect(told).toBeLessThan(KEYS);
    runtime.msPerLook = 0;
    runtime.advance(3_000);
    expect(waiters.filter(({ last }) => last?.startsWith("ok ")).length).toBe(KEYS);
    expect(store.commits).toBeGreaterThan(2);
  });
});

describe("a connection of a failed batch", () => {
  it("is closed also if the session was about to close it", () => {
    const world = new World();
    const { runtime, store } = world;
    const ann = world.connect({ transport: "tcp" });
    ann.ask("l", "k", "10");
    runtime.settle();
    store.fails = true;
    ann.ask("r", "k", ann.token);
    ann.connection?.inputEnded();
    runtime.endTurn();
    expect(ann.closedWith).toBe(1012);
  });

  it("resumes at once: its session is known all the time", async () => {
    const world = new World();
    const { runtime, store } = world;
    const ann = world.connect();
    ann.ask("session", "_", "resume");
    ann.ask("@1 l", "own", "10");
    runtime.settle();
    const credential = credentialOf(ann);
    runtime.msPerLook = 30;
    store.fails = true;
    for (let key = 0; key < KEYS; key += 1) ann.ask(`@k${key} l`, `k${key}`, "10");
    runtime.endTurn();
    expect(ann.closedWith).toBe(1012);
    expect(world.host.sessions.get(credential.session)).toBeDefined();
    store.fails = false;
    const back = await world.resume(credential);
    expect(back).not.toBe("session_gone");
  });
});

describe("a client that resumes a session that is ending", () => {
  function ending() {
    const world = new World();
    const ann = world.connect();
    ann.ask("session", "_", "resume");
    ann.ask("@1 l", "k", "10");
    world.runtime.settle();
    ann.connection?.closed(1000);
    return { world, ann, answer: settled(world.host.sessions.resume(ARRIVAL, credentialOf(ann))) };
  }

  it("is told so only once the end is stored", async () => {
    const { world, answer } = ending();
    expect(await answer()).toBe("pending");
    world.runtime.settle();
    expect(await answer()).toBe("session_gone");
  });

  it("may try again if the end could not be stored, and has its session back", async () => {
    const { world, ann, answer } = ending();
    world.store.fails = true;
    world.runtime.endTurn();
    expect(await answer()).toBe("unavailable");
    world.store.fails = false;
    world.runtime.advance(2_000);
    expect(await world.resume(credentialOf(ann))).not.toBe("session_gone");
  });
});

describe("clients that a failed batch has lost", () => {
  it("are out of every queue once commits work, also if somebody else's commit was the first", () => {
    const world = new World();
    const { runtime, store } = world;
    const [holder, ghost, last] = [world.connect(), world.connect(), world.connect()];
    holder.ask("l", "k", "10");
    runtime.settle();
    ghost.ask("l", "k", "1000");
    runtime.settle();
    last.ask("l", "k", "1000");
    runtime.settle();
    store.fails = true;
    ghost.ask("@1 l", "other", "10");
    runtime.settle();
    store.fails = false;
    expect(ghost.closedWith).toBe(1012);
    holder.ask("n", "k", holder.token);
    runtime.settle();
    expect(holder.last).toBe("ok 33");
    runtime.advance(3_000);
    expect(world.host.keys.get("k")?.engine.view().waiters).toBe(1);
  });

  it("that had left before lose their locks too", () => {
    const world = new World();
    const { runtime, store } = world;
    const ann = world.connect({ transport: "tcp" });
    ann.ask("l", "k", "10 3600");
    runtime.settle();
    store.fails = true;
    ann.hangUp(1000);
    runtime.settle();
    store.fails = false;
    runtime.advance(3_000);
    const ben = world.connect();
    ben.ask("l", "k", "0");
    runtime.settle();
    expect(ben.last).toMatch(/^ok /);
  });
});

describe("an HTTP request of a failed batch", () => {
  it("is rejected if its command throws, and so is everything of its batch", async () => {
    const world = new World();
    const { runtime } = world;
    const ann = world.connect();
    ann.ask("l", "k", "10");
    runtime.settle();
    breakKey(world, "k");
    const current = settled(world.service.keys.ask("k", { type: "current" }));
    const claim = settled(
      world.service.keys.claim(
        "k",
        { leaseSeconds: 10, waitMs: 0, sessionless: { kind: "file", tag: "", note: "" } },
        new AbortController().signal,
      ),
    );
    runtime.settle();
    expect(await current()).toBe("rejected");
    expect(await claim()).not.toBe("pending");
  });

  it("is rejected if it was ending its session", async () => {
    const world = new World();
    const { runtime, store } = world;
    const { rest } = world.service;
    const opening = rest.open("192.0.2.7", undefined);
    runtime.settle();
    const opened = await opening;
    if (opened.status !== "opened") throw new Error(opened.status);
    for (let key = 0; key < KEYS; key += 1) {
      const request = { type: "acquire", key: `k${key}`, limit: 1, waitSeconds: 1, leaseSeconds: 600 } as const;
      void rest.perform(opened.id, { request, label: undefined }, undefined);
    }
    runtime.settle();
    runtime.msPerLook = 30;
    const ending = settled(rest.end(opened.id));
    // The departure outlasts its batch.
    runtime.endTurn();
    expect(await ending()).toBe("pending");
    store.fails = true;
    runtime.endTurn();
    store.fails = false;
    runtime.msPerLook = 0;
    runtime.advance(5_000);
    expect(await ending()).not.toBe("pending");
    const ben = world.connect();
    for (let key = 0; key < KEYS; key += 1) ben.ask("l", `k${key}`, "0");
    runtime.settle();
    expect(ben.lines.filter((line) => line.startsWith("ok ")).length).toBe(KEYS);
  });

  it("leaves no lock behind if its client has hung up, however often that cannot be stored", async () => {
    const world = new World();
    const { runtime, store } = world;
    const client = new AbortController();
    const claim = { leaseSeconds: 3_600, waitMs: 100_000, sessionless: { kind: "file", tag: "", note: "" } } as const;
    const holder = world.connect();
    holder.ask("l", "k", "10");
    runtime.settle();
    const claiming = settled(world.service.keys.claim("k", claim, client.signal));
    runtime.settle();
    store.fails = true;
    client.abort();
    runtime.advance(2_500);
    store.fails = false;
    runtime.advance(3_000);
    expect(await claiming()).toMatchObject({ status: "left" });
    expect(world.host.keys.get("k")?.engine.view().waiters).toBe(0);
  });
});

describe("a key whose command throws", () => {
  it("is woken again: whoever waits for it is not forgotten", () => {
    const world = new World();
    const { runtime } = world;
    const [ann, ben] = [world.connect(), world.connect()];
    ann.ask("l", "k", "10 2");
    runtime.settle();
    ben.ask("l", "k", "100");
    runtime.settle();
    const mend = breakKey(world, "k");
    runtime.advance(2_500);
    mend();
    runtime.advance(2_500);
    const cat = world.connect();
    cat.ask("l", "k", "0");
    runtime.settle();
    expect([ben.last, ben.closedWith]).toEqual([expect.stringMatching(/^ok /), undefined]);
  });

  it("costs nobody a lock when nothing is kept on disk", () => {
    const world = new World({}, { isVolatile: true });
    const { runtime } = world;
    const [ann, ben] = [world.connect(), world.connect()];
    ann.ask("l", "a", "10");
    ben.ask("l", "b", "10");
    runtime.settle();
    const mend = breakKey(world, "b");
    ann.ask("n", "a", ann.token);
    ben.ask("n", "b", ben.token);
    runtime.settle();
    mend();
    runtime.advance(2_000);
    const cat = world.connect();
    cat.ask("l", "a", "0");
    cat.ask("l", "b", "0");
    runtime.settle();
    expect(cat.lines).toEqual(["timeout", "timeout"]);
  });

  it("costs only its own client the connection when nothing is kept on disk", () => {
    const world = new World({}, { isVolatile: true });
    const { runtime } = world;
    const [ann, ben] = [world.connect(), world.connect()];
    ann.ask("l", "a", "10");
    ben.ask("l", "b", "10");
    runtime.settle();
    const mend = breakKey(world, "b");
    ann.ask("n", "a", ann.token);
    ben.ask("l", "c", "10");
    ben.ask("n", "b", ben.token);
    runtime.settle();
    mend();
    runtime.advance(2_000);
    expect([ann.last, ann.closedWith]).toEqual(["ok 33", undefined]);
    // What was carried out before has been answered.
    expect([ben.last, ben.closedWith]).toEqual([expect.stringMatching(/^ok [0-9a-f]{32} 33$/), 1012]);
    const again = world.connect();
    again.ask("r", "c", ben.token);
    runtime.settle();
    expect(again.last).toBe("ok");
  });

  it("lets its client resume when nothing is kept on disk, and its place goes if it cannot", async () => {
    const world = new World({}, { isVolatile: true });
    const { runtime } = world;
    const [ann, ben, cat] = [world.connect(), world.connect(), world.connect()];
    ben.ask("session", "_", "resume");
    ben.ask("@1 l", "b", "10");
    ann.ask("l", "a", "10");
    runtime.settle();
    ben.ask("@2 l", "a", "100");
    cat.ask("@1 l", "a", "100");
    cat.ask("@2 l", "c", "10");
    runtime.settle();
    for (const [client, key] of [
      [ben, "b"],
      [cat, "c"],
    ] as const) {
      const mend = breakKey(world, key);
      client.ask("@3 n", key, client.token);
      runtime.settle();
      mend();
    }
    expect([ben.closedWith, cat.closedWith]).toEqual([1012, 1012]);
    runtime.advance(2_000);
    expect(world.host.keys.get("a")?.engine.view()).toMatchObject({ holderCount: 1, waiters: 1 });
    const back = await world.resume(credentialOf(ben));
    if (typeof back === "string") throw new Error(back);
    back.ask("@2 l", "a", "100");
    ann.ask("r", "a", ann.token);
    runtime.settle();
    expect(back.last).toMatch(/^@2 ok [0-9a-f]{32} 33$/);
  });

  it("rejects what HTTP has asked when nothing is kept on disk", async () => {
    const world = new World({}, { isVolatile: true });
    const { runtime } = world;
    const { rest, keys } = world.service;
    const { signal } = new AbortController();
    const opening = rest.open("192.0.2.7", undefined);
    runtime.settle();
    const opened = await opening;
    if (opened.status !== "opened") throw new Error(opened.status);
    const ann = world.connect();
    ann.ask("l", "k", "10");
    runtime.settle();
    const mend = breakKey(world, "k");
    const request = { type: "renew", key: "k", token: ann.token, leaseSeconds: 30 } as const;
    const claim = { leaseSeconds: 60, waitMs: 10_000, sessionless: { kind: "file", tag: "t", note: "" } } as const;
    const outcomes: string[] = [];
    for (const [name, ask] of Object.entries({
      perform: () => rest.perform(opened.id, { request, label: undefined }, signal),
      claim: () => keys.claim("k", claim, signal),
      current: () => keys.ask("k", { type: "current" }),
    })) {
      ask().then(
        () => outcomes.push(`${name} answered`),
        () => outcomes.push(`${name} rejected`),
      );
      runtime.settle();
      for (let tick = 0; tick < 10; tick += 1) await Promise.resolve();
    }
    mend();
    runtime.advance(2_000);
    expect(outcomes).toEqual(["perform rejected", "claim rejected", "current rejected"]);
    expect(world.host.keys.get("k")?.engine.view()).toMatchObject({ holderCount: 1, waiters: 0 });
    const again = rest.perform(opened.id, { request, label: undefined }, signal);
    runtime.settle();
    expect(await again).toMatchObject({ status: "ok", leaseSeconds: 30 });
  });
});

describe("a database that can no longer be read", () => {
  it("stops the service: nothing more is said", () => {
    const world = new World();
    const { runtime, store } = world;
    const [ann, ben] = [world.connect(), world.connect()];
    ann.ask("l", "k", "10");
    runtime.settle();
    store.fails = true;
    store.failsToRead = true;
    ann.ask("r", "k", ann.token);
    runtime.endTurn();
    store.fails = false;
    store.failsToRead = false;
    ben.ask("l", "k", "0");
    runtime.settle();
    expect(world.faults.length).toBe(1);
    expect(ben.lines).toEqual([]);
  });
});

/** One client holds many keys, and for each of them another one waits. */
function contended(world: World): { holder: Client; waiters: readonly Client[]; tokens: readonly string[] } {
  const { runtime } = world;
  const holder = world.connect();
  for (let key = 0; key < KEYS; key += 1) holder.ask("l", `k${key}`, "10");
  runtime.settle();
  const tokens = holder.lines.map((line) => line.split(" ")[1] ?? "");
  const waiters = tokens.map(() => world.connect());
  for (const [key, waiter] of waiters.entries()) waiter.ask("l", `k${key}`, "1000");
  runtime.settle();
  return { holder, waiters, tokens };
}

function releaseAll(holder: Client, tokens: readonly string[]): void {
  holder.askAll(tokens.map((token, key) => [`@${key} r`, `k${key}`, token] as const));
}

/** Whatever is asked of the key throws, until the returned function is called. */
function breakKey(world: World, name: string): () => void {
  const key = world.host.keys.get(name);
  if (!key) throw new Error(`no key ${name}`);
  let { engine } = key;
  let isBroken = true;
  const broken = (whole: typeof engine) =>
    new Proxy(whole, {
      get(target, property) {
        if (isBroken && (property === "tick" || property === "renew" || property === "current" || property === "claim"))
          return () => {
            throw new Error("a bug");
          };
        const value = Reflect.get(target, property, target);
        return typeof value === "function" ? value.bind(target) : value;
      },
    });
  Object.defineProperty(key, "engine", {
    get: () => broken(engine),
    set: (next: typeof engine) => {
      engine = next;
    },
  });
  return () => {
    isBroken = false;
  };
}

/** What has become of a promise: its outcome, "rejected" or, for now, "pending". */
function settled<Outcome>(promise: Promise<Outcome>): () => Promise<Outcome | "rejected" | "pending"> {
  let state: Outcome | "rejected" | "pending" = "pending";
  promise.then(
    (outcome) => {
      state = outcome;
    },
    () => {
      state = "rejected";
    },
  );
  return async () => {
    for (let turn = 0; turn < 10; turn += 1) await Promise.resolve();
    return state;
  };
}
