/**
 * `npm run soak -- --minutes 10`: sticky and plain clients of one process on a few keys, on a real server that is killed
 * every few seconds. Nobody may be in a callback while another client that still holds the lock is in one, and fences never
 * fall.
 */
import { setTimeout as wait } from "node:timers/promises";
import { parseArgs } from "node:util";
import { type Locks as Client, connect, type Lock } from "../../src/client/index.ts";
import { startServerProcess } from "../support/server-process.ts";

const { values } = parseArgs({
  options: {
    minutes: { type: "string", default: "10" },
    clients: { type: "string", default: "24" },
    keys: { type: "string", default: "4" },
  },
});

const HOST = "127.0.0.1";
const KILL_AFTER_MS = [500, 6_000] as const;
/** Now and then it stays away for longer than clients may take to resume. */
const AWAY_MS = [0, 1_000] as const;
const LONG_AWAY_MS = 12_000;
const LONG_AWAY_EVERY = 12;
const REPORT_EVERY = 10;
const CALLBACK_MS = [0, 15] as const;

const between = ([low, high]: readonly [number, number]) => low + Math.random() * (high - low);

interface Key {
  readonly name: string;
  /** Those in a callback. */
  readonly inside: Map<Client, Lock>;
  fence: bigint;
  by: Client | undefined;
}

const counts = { callbacks: 0, handOvers: 0, refused: 0, kills: 0 };
const problems: string[] = [];

function enter(key: Key, client: Client, lock: Lock): void {
  for (const [other, held] of key.inside)
    if (other !== client && held.isHeld && lock.isHeld)
      problems.push(`${key.name}: two holders, ${held.fence} and ${lock.fence}`);
  const fence = BigInt(`0x${lock.fence}`);
  if (fence < key.fence) problems.push(`${key.name}: the fence falls from ${key.fence} to ${fence}`);
  if (fence === key.fence && key.by !== client) problems.push(`${key.name}: two clients share the fence ${fence}`);
  if (key.by !== client) counts.handOvers += 1;
  counts.callbacks += 1;
  Object.assign(key, { fence, by: client });
  key.inside.set(client, lock);
}

async function work(client: Client, keys: readonly Key[], isSticky: boolean, isOver: () => boolean): Promise<void> {
  while (!isOver()) {
    const key = keys[Math.floor(Math.random() * keys.length)] as Key;
    try {
      await client.request(key.name, { sticky: isSticky, lease: 5_000, timeout: 30_000 }, async (lock) => {
        enter(key, client, lock);
        try {
          await wait(between(CALLBACK_MS));
        } finally {
          key.inside.delete(client);
        }
      });
    } catch {
      // Lost with the service, or timed out during an outage.
      counts.refused += 1;
      await wait(50);
    }
  }
}

const server = await startServerProcess();
const endsAt = Date.now() + Number(values.minutes) * 60_000;
const isOver = () => Date.now() > endsAt || problems.length > 0;
const keys = Array.from({ length: Number(values.keys) }, (_, n): Key => {
  return { name: `soak-${n}`, inside: new Map(), fence: 0n, by: undefined };
});
const clients = Array.from({ length: Number(values.clients) }, () => connect(`ws://${HOST}:${server.httpPort}`));
const working = Promise.all(clients.map((client, n) => work(client, keys, n % 2 === 0, isOver)));
try {
  while (!isOver()) {
    await wait(between(KILL_AFTER_MS));
    await server.kill9();
    counts.kills += 1;
    await wait(counts.kills % LONG_AWAY_EVERY === 0 ? LONG_AWAY_MS : between(AWAY_MS));
    await server.restart();
    if (counts.kills % REPORT_EVERY === 0) console.log(JSON.stringify(counts));
  }
  await working;
} finally {
  await Promise.allSettled(clients.map((client) => client.close()));
  await server.stop();
}
for (const line of server.log.split("\n").filter((each) => each !== "")) problems.push(`the server says: ${line}`);
for (const problem of problems) console.error(problem);
console.log(`${values.minutes} min: ${JSON.stringify(counts)}; ${problems.length === 0 ? "no overlap" : "WRONG"}`);
process.exit(problems.length === 0 ? 0 : 1);
