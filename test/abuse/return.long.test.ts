import { expect, it, onTestFinished } from "vitest";
import { WebSocket } from "ws";
import { connect, type Lock, type Locks } from "../../src/client/index.ts";
import { eventually, freePort, startServe, temporaryDir } from "../cli/support.ts";
import { sleep } from "../support/poll.ts";
import { scaled, TIMEOUT_MS } from "./scale.ts";

const HOLDERS = scaled(160, 2_000);
const WAITERS = scaled(40, 500);
const DOWN_S = 1;
/** As the server has it by default: who is back within it has lost nothing. */
const GRACE_MS = 10_000;
const AT_ONCE = 32;

interface Client {
  readonly locks: Locks;
  readonly lock?: Lock;
  readonly waiting?: Promise<Lock>;
}

/** Connects everybody, a few at a time: holders first, then those who wait for them. */
async function gather(url: string): Promise<Client[]> {
  const clients: Client[] = [];
  const join = async (index: number): Promise<Client> => {
    const locks = connect(url, { WebSocket });
    if (index < HOLDERS) return { locks, lock: await locks.acquire(`held-${index}`) };
    return { locks, waiting: locks.acquire(`held-${index % HOLDERS}`) };
  };
  for (let first = 0; first < HOLDERS + WAITERS; first += AT_ONCE) {
    const last = Math.min(first + AT_ONCE, HOLDERS + WAITERS);
    const group = Array.from({ length: last - first }, (_, index) => join(first + index));
    clients.push(...(await Promise.all(group)));
  }
  return clients;
}

async function isBack(locks: Locks): Promise<void> {
  for await (const status of locks.statuses()) if (status === "resumed") return;
}

it(`after kill -9, ${HOLDERS} clients with a lock and ${WAITERS} with a place are back within the grace, and nobody has lost anything`, {
  timeout: TIMEOUT_MS,
}, async () => {
  const where = { dataDir: temporaryDir(), port: await freePort(), httpPort: await freePort() };
  const server = await startServe(where);
  const clients = await gather(`http://127.0.0.1:${where.httpPort}`);
  onTestFinished(async () => {
    await Promise.all(clients.map(({ locks }) => locks.close()));
  });
  const lost: unknown[] = [];
  for (const { lock, waiting } of clients) {
    void lock?.lost.then((loss) => lost.push(loss));
    waiting?.catch((error: unknown) => lost.push(error));
  }
  await eventually("all places to be taken", async () => {
    const response = await fetch(`http://127.0.0.1:${where.httpPort}/metrics`);
    return (await response.text()).includes(`\ndflockd_lock_waiters ${WAITERS}\n`);
  });

  const back = Promise.all(clients.map(({ locks }) => isBack(locks)));
  const killedAt = performance.now();
  server.child.kill("SIGKILL");
  await server.exited;
  await sleep(DOWN_S);
  await startServe(where);
  await back;
  expect(performance.now() - killedAt).toBeLessThan(GRACE_MS);

  const holders = clients.slice(0, HOLDERS);
  expect(holders.filter(({ lock }) => lock?.isHeld)).toHaveLength(HOLDERS);
  // What they hold is theirs, and the places behind them are where they were.
  const releasing = holders.slice(0, WAITERS).map(({ lock }) => lock?.release());
  const taken = await Promise.all(clients.slice(HOLDERS).map(({ waiting }) => waiting));
  expect(taken.filter((lock) => lock?.isHeld)).toHaveLength(WAITERS);
  await Promise.all(releasing);
  expect(lost).toEqual([]);
});
