/** The lives that `npm run cost` puts a price on. Each one does its work, checks that it was done, and leaves nothing open. */
import { evictAllDurableObjects } from "cloudflare:test";
import { env, exports } from "cloudflare:workers";
import { connect, type Locks } from "../../../src/client/index.ts";
import { allDirectories } from "../../../src/cloudflare/calls/directories.ts";
import { locks } from "../../../src/cloudflare/lock-key/index.ts";
import type { LocksBinding } from "../../../src/cloudflare/locks/binding.ts";
import { newSessionId } from "../../../src/core/session-names.ts";
import { RestClient, tokenIn } from "../rest.ts";
import { Client, tokenOf } from "../support.ts";
import type { Counting } from "./counting.ts";

/** What one life may cost at most. */
export interface Budget {
  readonly rowsWritten: number;
  /** As charged: calls, alarms, and a twentieth of the messages. */
  readonly requests: number;
  /** Time in which timers keep objects awake. */
  readonly heldMs: number;
  /** For a million, if that is promised. */
  readonly dollars?: number;
}

export interface Life {
  readonly name: string;
  /** How often the work is repeated; what is counted is divided by it. */
  readonly times: number;
  readonly budget: Budget;
  /** How far the directory and the metrics are from everything else; 0 unless said. */
  readonly shardMs?: number;
  /** Uncounted: opens connections, founds keys. Returns the work, and what ends it, uncounted too. */
  prepare(counting: Counting): Promise<{ work(): Promise<void>; end?(): Promise<void> }>;
}

const HOUR_MS = 3_600_000;
/** Longer than a key keeps its rows after its last use. */
const KEYS_ARE_GONE_AFTER_MS = 1.2 * HOUR_MS;

let keys = 0;

/** The same names in every run, so that they fall to the same directories. */
const nextKey = () => `key-${++keys}`;

async function cycle(client: Client, key: string): Promise<void> {
  const token = tokenOf(await client.ask(`l\n${key}\n0\n`));
  expectOk(await client.ask(`r\n${key}\n${token}\n`));
}

/** The client library without its heartbeats, which wake nothing: docs/cost.md adds them up. */
function shippedClient(): Locks {
  const now = () => Date.now();
  return connect(exports.default, { label: "cost", clock: { wall: now, steady: now, after: () => () => {} } });
}

/** A connection that asks for what the client library asks for. */
async function openAsShipped(): Promise<Client> {
  const client = await Client.open();
  expectOk(await client.ask("watch\n_\ntaken\n"));
  expectOk(await client.ask("session\n_\nresume\n"));
  return client;
}

function expectOk(reply: string): void {
  if (!reply.startsWith("ok")) throw new Error(`not done: ${reply}`);
}

/** Acquire and release over an open WebSocket, on a key that is in use already, one cycle every `everyMs`. */
function keyInUse(name: string, times: number, everyMs: number, budget: Budget): Life {
  return {
    name,
    times,
    budget,
    async prepare(counting) {
      const [client, key] = [await Client.open(), nextKey()];
      const work = async (cycles: number) => {
        for (let count = 0; count < cycles; count++) {
          await cycle(client, key);
          await counting.pass(everyMs);
        }
      };
      await work(5);
      return { work: () => work(times), end: () => counting.close(client) };
    },
  };
}

const RENEWALS: Life = {
  name: "a renewal, every ten seconds",
  times: 6,
  budget: { rowsWritten: 1.2, requests: 1.3, heldMs: 60, dollars: 1.4 },
  async prepare(counting) {
    const [client, key] = [await openAsShipped(), nextKey()];
    const token = tokenOf(await client.ask(`l\n${key}\n0 30\n`));
    const renew = async (times: number) => {
      for (let count = 0; count < times; count++) {
        await counting.pass(10_000);
        expectOk(await client.ask(`n\n${key}\n${token} 30\n`));
      }
      await counting.quiet();
    };
    await renew(3);
    return { work: () => renew(RENEWALS.times), end: () => counting.close(client) };
  },
};

/** Keys that are used once, from the first word about them to the last trace. The session stays. */
function freshKeys(name: string, times: number, pauseMs: number, budget: Life["budget"]): Life {
  return {
    name,
    times,
    budget,
    async prepare(counting) {
      const client = await Client.open();
      const work = async (keys: number) => {
        for (let count = 0; count < keys; count++) {
          await cycle(client, nextKey());
          await counting.pass(pauseMs);
        }
        await counting.pass(KEYS_ARE_GONE_AFTER_MS);
      };
      await work(2);
      return { work: () => work(times), end: () => counting.close(client) };
    },
  };
}

/** The same with the client library, which resumes its session and hears of holds that are taken from it. */
function shippedKeys(name: string, budget: Budget, shardMs = 0): Life {
  const times = 5;
  return {
    name,
    times,
    budget,
    shardMs,
    async prepare(counting) {
      const locks = shippedClient();
      const work = async (keys: number) => {
        for (let count = 0; count < keys; count++) {
          await locks.request(nextKey(), async () => {});
          await counting.pass(1_000);
        }
        await counting.pass(KEYS_ARE_GONE_AFTER_MS);
      };
      await work(2);
      return { work: () => work(times), end: () => locks.close() };
    },
  };
}

/** Two clients want the same lock: each holds it for half a second, while the other waits. */
const HAND_OVER: Life = {
  name: "a contended hand-over: wait, be granted, release",
  times: 8,
  budget: { rowsWritten: 4.3, requests: 4, heldMs: 120 },
  async prepare(counting) {
    const clients = [await Client.open(), await Client.open()] as const;
    const key = nextKey();
    let token = tokenOf(await clients[0].ask(`l\n${key}\n60\n`));
    let turn = 0;
    const handOver = async (times: number) => {
      for (let count = 0; count < times; count++, turn++) {
        const [holder, waiter] = turn % 2 === 0 ? clients : [clients[1], clients[0]];
        waiter.send(`l\n${key}\n60\n`);
        await counting.pass(500);
        expectOk(await holder.ask(`r\n${key}\n${token}\n`));
        token = tokenOf(await waiter.line());
        await counting.quiet();
      }
    };
    await handOver(4);
    return {
      work: () => handOver(HAND_OVER.times),
      end: async () => {
        for (const client of clients) await counting.close(client);
      },
    };
  },
};

/** Nothing but the hour: the place in the queue was taken before, and the objects are asleep. */
const PARKED: Life = {
  name: "a waiter parked for an hour",
  times: 1,
  // The held key wakes once, and so do the shards that count the two sessions. Each sets its alarm for the next time. What
  // a shard costs in an hour is the same for all sessions that it counts.
  budget: { rowsWritten: 3, requests: 5, heldMs: 0, dollars: 2.7 },
  async prepare(counting) {
    const [holder, waiter, key] = [await Client.open(), await Client.open(), nextKey()];
    const token = tokenOf(await holder.ask(`l\n${key}\n0 36000\n`));
    waiter.send(`l\n${key}\n30000\n`);
    // What the service has to do afterwards, such as its reports, is not part of the hour.
    await counting.pass(60_000);
    await evictAllDurableObjects();
    return {
      work: () => counting.pass(HOUR_MS),
      async end() {
        expectOk(await holder.ask(`r\n${key}\n${token}\n`));
        tokenOf(await waiter.line());
        await counting.close(holder);
        await counting.close(waiter);
      },
    };
  },
};

/** What the client's sticky locks send: the callbacks in between cost no message. */
const STICKY: Life = {
  name: "a sticky lock, kept for a minute of ten callbacks a second",
  times: 600,
  budget: { rowsWritten: 0.025, requests: 0.025, heldMs: 30 },
  async prepare(counting) {
    const [client, key] = [await Client.open(), nextKey()];
    await cycle(client, key);
    const work = async () => {
      const token = tokenOf(await client.ask(`l\n${key}\n0 30 wanted\n`));
      for (let count = 0; count < 6; count++) {
        await counting.pass(10_000);
        expectOk(await client.ask(`n\n${key}\n${token} 30\n`));
      }
      expectOk(await client.ask(`r\n${key}\n${token}\n`));
    };
    return { work, end: () => counting.close(client) };
  },
};

const REST: Life = {
  name: "acquire and release over REST, ten cycles a second, key in use",
  times: 10,
  budget: { rowsWritten: 2.2, requests: 3.4, heldMs: 30 },
  async prepare(counting) {
    const [client, key] = [await RestClient.open(), nextKey()];
    const work = async (times: number) => {
      for (let count = 0; count < times; count++) {
        const { status } = await client.release(key, tokenIn(await client.acquire(key)));
        if (status !== 204) throw new Error(`not released: ${status}`);
        await counting.pass(100);
      }
    };
    await work(5);
    return { work: () => work(REST.times), end: async () => void (await client.end()) };
  },
};

const binding = () => exports.Locks as unknown as LocksBinding;

/** Another Worker with a service binding. Calls between Workers are not charged, only those of objects. */
const BINDING: Life = {
  name: "acquire and release over a service binding, ten cycles a second, key in use",
  times: 10,
  budget: { rowsWritten: 2, requests: 2.2, heldMs: 30, dollars: 2.5 },
  async prepare(counting) {
    const key = nextKey();
    const work = async (times: number) => {
      for (let count = 0; count < times; count++) {
        const acquired = await binding().acquire(key);
        if (!(await binding().release(key, acquired?.token ?? ""))) throw new Error("not released");
        await counting.pass(100);
      }
    };
    await work(5);
    return { work: () => work(BINDING.times) };
  },
};

/** Keys that another Worker uses once. */
const BINDING_KEYS: Life = {
  name: "a key used once over a service binding",
  times: 20,
  budget: { rowsWritten: 6.1, requests: 5.6, heldMs: 30, dollars: 7 },
  async prepare(counting) {
    const work = async (keys: number) => {
      for (let count = 0; count < keys; count++) {
        const key = nextKey();
        const acquired = await binding().acquire(key);
        if (!(await binding().release(key, acquired?.token ?? ""))) throw new Error("not released");
        await counting.pass(1_000);
      }
      await counting.pass(KEYS_ARE_GONE_AFTER_MS);
    };
    await work(2);
    return { work: () => work(BINDING_KEYS.times) };
  },
};

/** A Worker with keys of its own. */
const OWN: Life = {
  name: "acquire and release with `LockKey`, ten cycles a second, key in use",
  times: 10,
  budget: { rowsWritten: 2, requests: 2.2, heldMs: 30, dollars: 2.5 },
  async prepare(counting) {
    const [own, key] = [locks(env.LOCK_KEY), nextKey()];
    const work = async (times: number) => {
      for (let count = 0; count < times; count++) {
        const lock = await own.acquire(key);
        if (!(await lock?.release())) throw new Error("not released");
        await counting.pass(100);
      }
    };
    await work(5);
    return { work: () => work(OWN.times) };
  },
};

/** The same with a callback. A socket tells the key that the Worker is still there. */
const OWN_REQUEST: Life = {
  name: "`request` with `LockKey`, ten a second, key in use",
  times: 10,
  budget: { rowsWritten: 2, requests: 3.3, heldMs: 30, dollars: 2.7 },
  async prepare(counting) {
    const [own, key] = [locks(env.LOCK_KEY), nextKey()];
    const work = async (times: number) => {
      for (let count = 0; count < times; count++) {
        await own.request(key, undefined, async () => {});
        await counting.pass(100);
      }
    };
    await work(5);
    return { work: () => work(OWN_REQUEST.times) };
  },
};

/** Keys of its own that a Worker uses once. Nothing lists them. */
const OWN_KEYS: Life = {
  name: "a key used once with `LockKey`",
  times: 20,
  budget: { rowsWritten: 4.1, requests: 3.3, heldMs: 30, dollars: 4.7 },
  async prepare(counting) {
    const own = locks(env.LOCK_KEY);
    const work = async (keys: number) => {
      for (let count = 0; count < keys; count++) {
        const lock = await own.acquire(nextKey());
        if (!(await lock?.release())) throw new Error("not released");
        await counting.pass(1_000);
      }
      await counting.pass(KEYS_ARE_GONE_AFTER_MS);
    };
    await work(2);
    return { work: () => work(OWN_KEYS.times) };
  },
};

/** Two Workers, of which one waits in vain: over a service binding, or at a key of its own. */
function minuteOfWaiting(name: string, locksOf: () => Pick<LocksBinding, "acquire" | "release">, budget: Budget): Life {
  return {
    name,
    times: 1,
    budget,
    async prepare(counting) {
      const [own, key] = [locksOf(), nextKey()];
      const held = await own.acquire(key, { lease: HOUR_MS });
      const wait = async () => {
        const { messages } = counting.read();
        // In virtual time, as all that a Worker does.
        const waiting = counting.inWorker(() => own.acquire(key, { timeout: 60_000 })) as Promise<unknown>;
        // Nobody sees a call on its way to another Worker. The key has heard of the wait before time passes.
        while (counting.read().messages === messages) await scheduler.wait(4);
        await counting.pass(61_000);
        if (await waiting) throw new Error("granted");
      };
      await wait();
      return {
        work: wait,
        async end() {
          if (!(await own.release(key, held?.token ?? ""))) throw new Error("not released");
        },
      };
    },
  };
}

/** The first session that a shard counts in an hour sets its alarm. */
async function wakeShards(): Promise<void> {
  for (const directory of allDirectories(env)) {
    const session = newSessionId();
    await directory.openSession({ session, address: "192.0.2.1", transport: "ws" });
    await directory.closeSession({ session });
  }
}

/** The client library in a program that takes one lock and ends. The key stays in use. */
const SHIPPED_CHURN: Life = {
  name: "a client library that connects, takes a lock, gives it back and closes",
  times: 5,
  budget: { rowsWritten: 11.3, requests: 5.6, heldMs: 200 },
  async prepare(counting) {
    const [resident, key] = [await Client.open(), nextKey()];
    await cycle(resident, key);
    await wakeShards();
    const visit = async () => {
      const locks = shippedClient();
      await locks.request(key, async () => {});
      await counting.close({ close: () => void locks.close() });
      await counting.pass(2_000);
    };
    await visit();
    await counting.pass(10_000);
    return {
      async work() {
        for (let count = 0; count < SHIPPED_CHURN.times; count++) await visit();
        await counting.pass(30_000);
      },
      end: () => counting.close(resident),
    };
  },
};

/** A connection that comes, takes a lock and goes, until no trace of it is left. The key stays in use. */
const CHURN: Life = {
  name: "a connection that comes, takes a lock, gives it back and goes",
  times: 5,
  budget: { rowsWritten: 4.5, requests: 5.6, heldMs: 200 },
  async prepare(counting) {
    const [resident, key] = [await Client.open(), nextKey()];
    await cycle(resident, key);
    await wakeShards();
    const visit = async () => {
      const client = await Client.open();
      await cycle(client, key);
      await counting.close(client);
      await counting.pass(2_000);
    };
    await visit();
    await counting.pass(10_000);
    return {
      async work() {
        for (let count = 0; count < CHURN.times; count++) await visit();
        await counting.pass(30_000);
      },
      end: () => counting.close(resident),
    };
  },
};

/** In the order in which `docs/cost.md` lists them. */
export const LIVES: readonly Life[] = [
  keyInUse("acquire and release, key in use, ten cycles a second", 10, 100, {
    rowsWritten: 2.1,
    requests: 2.3,
    heldMs: 60,
    dollars: 2.6,
  }),
  keyInUse("acquire and release, key used every twenty seconds", 6, 20_000, {
    rowsWritten: 2.4,
    requests: 2.6,
    heldMs: 60,
    dollars: 2.6,
  }),
  RENEWALS,
  // Five rows and the deletion of everything; five requests. An hour also has the directory's look after the session.
  freshKeys("a key used once, from its founding until it is pruned", 5, 1_000, {
    rowsWritten: 6.5,
    requests: 6.3,
    heldMs: 60,
  }),
  freshKeys("the same, ten new keys a second", 64, 100, { rowsWritten: 6.1, requests: 6, heldMs: 200 }),
  shippedKeys("a key used once, with the client library", {
    rowsWritten: 7.6,
    requests: 6.3,
    heldMs: 60,
    dollars: 8.5,
  }),
  shippedKeys("the same, the directory 300 ms away", { rowsWritten: 7.6, requests: 6.3, heldMs: 800 }, 300),
  HAND_OVER,
  STICKY,
  PARKED,
  REST,
  CHURN,
  SHIPPED_CHURN,
  BINDING,
  BINDING_KEYS,
  minuteOfWaiting("a Worker that waits for a minute over a service binding", binding, {
    rowsWritten: 4.2,
    requests: 3.3,
    heldMs: 30,
  }),
  OWN,
  OWN_REQUEST,
  OWN_KEYS,
  minuteOfWaiting("a Worker that waits for a minute with `LockKey`", () => locks(env.LOCK_KEY), {
    rowsWritten: 5.2,
    requests: 75,
    heldMs: 30,
  }),
];
