/** What clients wait for, from the moment at which they ask until they have their answer. */
import { evictAllDurableObjects } from "cloudflare:test";
import { env, exports } from "cloudflare:workers";
import { locks } from "../../../src/cloudflare/lock-key/index.ts";
import type { LocksBinding } from "../../../src/cloudflare/locks/binding.ts";
import { RestClient, tokenIn } from "../rest.ts";
import { Client, fresh, tokenOf } from "../support.ts";
import type { FarObjects, Way } from "./far-objects.ts";

/** Runs the part of a story that is measured, with objects far apart. */
export type Away = <Result>(work: () => Promise<Result>) => Promise<Result>;

export interface DistancePath {
  readonly name: string;
  /** Calls in sequence, and what crosses between objects in sequence: calls, answers, and what is pushed over sockets. */
  readonly budget: { readonly calls: number; readonly crossings: number };
  /** What timers add, in ms; nothing unless said. */
  readonly pausesMs?: number;
  take(far: FarObjects, away: Away): Promise<Way>;
}

/** Nothing that is held here is lost while time passes. */
const LEASE_S = 36_000;
const HOUR_MS = 3_600_000;
/** For whatever has to happen before a story goes on. */
const MOMENT_MS = 2_000;

const CALL = { calls: 1, crossings: 2 };
const binding = () => exports.Locks as unknown as LocksBinding;
const own = () => locks(env.LOCK_KEY);

/** A key of the Worker's own that it holds. */
async function holdingOwn(far: FarObjects, key = fresh("key")) {
  const { reply: lock, ...way } = await far.request("result", () => own().acquire(key, { lease: LEASE_S * 1000 }));
  if (!lock) throw new Error("not granted");
  return { lock, way };
}

async function connected(far: FarObjects): Promise<Client> {
  return (await far.request("reply", () => Client.open())).reply;
}

async function restClient(far: FarObjects): Promise<RestClient> {
  return (await far.request("reply", () => RestClient.open())).reply;
}

async function acquire(far: FarObjects, client: Client, key: string) {
  const { line, ...way } = await far.ask(client, `l\n${key}\n0 ${LEASE_S}\n`);
  return { ...way, token: tokenOf(line) };
}

async function release(far: FarObjects, client: Client, key: string, token: string): Promise<Way> {
  const { line, ...way } = await far.ask(client, `r\n${key}\n${token}\n`);
  if (line !== "ok") throw new Error(`not released: ${line}`);
  return way;
}

/** A key that is in use, and a client that has used it. */
async function keyInUse(far: FarObjects) {
  const [client, key] = [await connected(far), fresh("key")];
  const { token } = await acquire(far, client, key);
  await release(far, client, key, token);
  return { client, key };
}

/** A client that holds a key. */
async function holding(far: FarObjects) {
  const { client, key } = await keyInUse(far);
  return { client, key, ...(await acquire(far, client, key)) };
}

export const PATHS: readonly DistancePath[] = [
  {
    name: "connect",
    budget: CALL,
    async take(far, away) {
      const { reply: client, ...way } = await away(() => far.request("reply", () => Client.open()));
      client.close();
      return way;
    },
  },
  {
    name: "acquire, key in use",
    budget: CALL,
    async take(far, away) {
      const { client, key } = await keyInUse(far);
      const way = await away(() => acquire(far, client, key));
      client.close();
      return way;
    },
  },
  {
    name: "release",
    budget: CALL,
    async take(far, away) {
      const { client, key, token } = await holding(far);
      const way = await away(() => release(far, client, key, token));
      client.close();
      return way;
    },
  },
  {
    name: "renew",
    budget: CALL,
    async take(far, away) {
      const { client, key, token } = await holding(far);
      const way = await away(() => far.ask(client, `n\n${key}\n${token} ${LEASE_S}\n`));
      if (!way.line.startsWith("ok")) throw new Error(`not renewed: ${way.line}`);
      client.close();
      return way;
    },
  },
  {
    name: "first use of a key",
    budget: CALL,
    async take(far, away) {
      const [client, key] = [await connected(far), fresh("key")];
      const way = await away(() => acquire(far, client, key));
      client.close();
      return way;
    },
  },
  {
    name: "acquire, key not used for an hour",
    budget: CALL,
    async take(far, away) {
      const { client, key } = await keyInUse(far);
      await far.pass(HOUR_MS);
      await evictAllDurableObjects();
      const way = await away(() => acquire(far, client, key));
      client.close();
      return way;
    },
  },
  {
    name: "hand-over, from the release to the grant",
    budget: { calls: 2, crossings: 2 },
    async take(far, away) {
      const { client: holder, key, token } = await holding(far);
      const waiter = await connected(far);
      waiter.send(`l\n${key}\n30000 ${LEASE_S}\n`);
      await far.pass(MOMENT_MS);
      const way = await away(() => far.line(() => holder.send(`r\n${key}\n${token}\n`), "ok "));
      tokenOf(await waiter.line());
      for (const client of [holder, waiter]) client.close();
      return way;
    },
  },
  {
    name: "REST: open a session",
    budget: CALL,
    async take(far, away) {
      const { reply: _, ...way } = await away(() => far.request("reply", () => RestClient.open()));
      return way;
    },
  },
  {
    name: "REST: acquire",
    budget: { calls: 2, crossings: 4 },
    async take(far, away) {
      const [client, key] = [await restClient(far), fresh("key")];
      const { reply, ...way } = await away(() => far.request("reply", () => client.acquire(key)));
      tokenIn(reply);
      return way;
    },
  },
  {
    name: "REST: renew",
    budget: { calls: 2, crossings: 4 },
    async take(far, away) {
      const [client, key] = [await restClient(far), fresh("key")];
      const token = tokenIn((await far.request("reply", () => client.acquire(key))).reply);
      const { reply, ...way } = await away(() => far.request("reply", () => client.renew(key, token)));
      if (reply.status !== 200) throw new Error(`not renewed: ${reply.status}`);
      return way;
    },
  },
  {
    name: "REST: release",
    budget: CALL,
    async take(far, away) {
      const [client, key] = [await restClient(far), fresh("key")];
      const token = tokenIn((await far.request("reply", () => client.acquire(key))).reply);
      const { reply, ...way } = await away(() => far.request("reply", () => client.release(key, token)));
      if (reply.status !== 204) throw new Error(`not released: ${reply.status}`);
      return way;
    },
  },
  {
    name: "REST: acquire that waits, from the release to the reply",
    budget: { calls: 2, crossings: 3 },
    async take(far, away) {
      const { client: holder, key, token } = await holding(far);
      const waiter = await restClient(far);
      const waiting = waiter.acquire(key, 60);
      await far.pass(MOMENT_MS);
      const way = await away(() => far.reply("reply", () => holder.send(`r\n${key}\n${token}\n`)));
      tokenIn(await waiting);
      holder.close();
      return way;
    },
  },
  {
    name: "binding: acquire",
    budget: CALL,
    async take(far, away) {
      const { reply, ...way } = await away(() => far.request("result", () => binding().acquire(fresh("key"))));
      if (!reply) throw new Error("not granted");
      return way;
    },
  },
  {
    name: "binding: renew",
    budget: CALL,
    async take(far, away) {
      const key = fresh("key");
      const { reply: lock } = await far.request("result", () => binding().acquire(key));
      const { reply, ...way } = await away(() =>
        far.request("result", () => binding().renew(key, lock?.token ?? "", { lease: LEASE_S * 1000 })),
      );
      if (!reply) throw new Error("not renewed");
      return way;
    },
  },
  {
    name: "binding: release",
    budget: CALL,
    async take(far, away) {
      const key = fresh("key");
      const { reply: lock } = await far.request("result", () => binding().acquire(key));
      const { reply, ...way } = await away(() =>
        far.request("result", () => binding().release(key, lock?.token ?? "")),
      );
      if (!reply) throw new Error("not released");
      return way;
    },
  },
  {
    name: "binding: acquire that waits, from the release to the result",
    budget: { calls: 1, crossings: 2 },
    async take(far, away) {
      const { client: holder, key, token } = await holding(far);
      const waiting = binding().acquire(key, { timeout: 60_000, lease: LEASE_S * 1000 });
      await far.pass(MOMENT_MS);
      const way = await away(() => far.reply("result", () => holder.send(`r\n${key}\n${token}\n`), "acquire"));
      if (!(await waiting)) throw new Error("not granted");
      holder.close();
      return way;
    },
  },
  {
    name: "LockKey: acquire",
    budget: CALL,
    async take(far, away) {
      return (await away(() => holdingOwn(far))).way;
    },
  },
  {
    name: "LockKey: renew",
    budget: CALL,
    async take(far, away) {
      const { lock } = await holdingOwn(far);
      const { reply, ...way } = await away(() => far.request("result", () => lock.renew()));
      if (!reply) throw new Error("not renewed");
      return way;
    },
  },
  {
    name: "LockKey: release",
    budget: CALL,
    async take(far, away) {
      const { lock } = await holdingOwn(far);
      const { reply, ...way } = await away(() => far.request("result", () => lock.release()));
      if (!reply) throw new Error("not released");
      return way;
    },
  },
  {
    // Two of them find out whether the Worker is still there.
    name: "LockKey: acquire that waits, from the release to the result",
    budget: { calls: 1, crossings: 4 },
    pausesMs: 1,
    async take(far, away) {
      const { lock } = await holdingOwn(far);
      const waiting = own().acquire(lock.key, { timeout: 60_000, lease: LEASE_S * 1000 });
      // It listens from each full second to the next.
      await far.pass(MOMENT_MS + 200);
      let released: Promise<boolean> | undefined;
      const release = () => {
        released = lock.release();
      };
      const way = await away(() => far.reply("result", release, "acquire"));
      if (!(await waiting) || !(await released)) throw new Error("not handed over");
      return way;
    },
  },
];
