import type { Story } from "../simulation.ts";
import { ClaimClient } from "./claim-client.ts";
import type { SimulatedClient } from "./clients.ts";
import { RestClient } from "./rest-client.ts";
import { type Manner, SocketClient } from "./socket-client.ts";
import { type Faults, World } from "./world.ts";

const NAMES = ["ada", "bob", "cy", "dee", "eve", "fay", "gil"];
const ACTIONS = 120;
/** Beyond the grace of sessions, and the pauses between attempts to commit. */
const SETTLED_AFTER_MS = 30_000;
/** Beyond the longest wait of a claim and the longest lease. */
const ANSWERED_WITHIN_MS = 400_000;
/** Beyond the idle time of sessions, and pruning. */
const GONE_WITHIN_MS = 200_000;

/** Runs one world of the Node host from its seed to its end. */
export async function simulateNode(seed: number): Promise<Story> {
  let world: World | undefined;
  try {
    world = new World(seed, faultsOf(seed));
    await run(world);
    if (world.violation) throw world.violation;
    return { seed, grants: world.ledger.grants };
  } catch (error) {
    const message = error instanceof Error ? (error.stack ?? error.message) : String(error);
    return { seed, grants: world?.ledger.grants ?? 0, problem: { message, story: world?.story ?? [] } };
  }
}

/** Some worlds are quiet, some are wild, and some have one kind of trouble only. */
function faultsOf(seed: number): Faults {
  const level = [0, 0.01, 0.04, 0.12][seed % 4] ?? 0;
  const only = Math.floor(seed / 4) % 6;
  const of = (kind: number) => (only === 0 || only === kind ? level : 0);
  return {
    commit: of(1),
    outage: 0.3,
    crash: of(2) / 2,
    throws: of(3) / 4,
    stall: of(4),
    setBack: of(5) / 4,
  };
}

async function run(world: World): Promise<void> {
  const { schedule } = world;
  const keys = ["lock", "pool", "other"].slice(0, schedule.between(1, 3));
  const clients = NAMES.slice(0, schedule.between(2, NAMES.length)).map((name) => clientOf(world, name, keys));
  for (let action = 0; action < ACTIONS; action++) {
    await world.runUntil(schedule.now + (schedule.happens(0.4) ? schedule.between(0, 5) : schedule.between(1, 800)));
    schedule.pick(clients)?.act();
    if (schedule.happens(0.1)) readMetrics(world);
    if (schedule.happens(0.1)) world.ledger.memoryIsStored();
    if (schedule.happens(0.05)) world.ledger.allAreListed();
  }
  world.calm();
  await world.runUntil(schedule.now + SETTLED_AFTER_MS);
  world.ledger.memoryIsStored();
  world.ledger.noGhosts(clients.flatMap(({ waiters }) => waiters));
  readMetrics(world);
  const stays = clients.filter((_, index) => index % 4 !== 3);
  for (const [index, client] of clients.entries()) if (index % 4 === 3) client.vanish();
  for (const client of stays) client.leave();
  const until = schedule.now + ANSWERED_WITHIN_MS + world.setBackMs;
  while (schedule.now < until && stays.some(({ unanswered }) => unanswered.length > 0)) {
    await world.runUntil(schedule.now + 1_000);
    for (const client of stays) if (!(client instanceof SocketClient)) client.act();
  }
  const unanswered = stays.flatMap((client) => client.unanswered);
  if (unanswered.length > 0) world.fail(`never answered: ${unanswered.join("; ")}`);
  // A clock that was set back makes leases longer, and idle keys stay longer.
  await world.runUntil(schedule.now + GONE_WITHIN_MS + world.setBackMs);
  world.ledger.memoryIsStored();
  world.ledger.nothingIsLeft();
}

function clientOf(world: World, name: string, keys: readonly string[]): SimulatedClient {
  const { schedule } = world;
  const kind = schedule.chance();
  if (kind < 0.25) return new RestClient(world, name, keys);
  if (kind < 0.45) return new ClaimClient(world, name, keys);
  const manner: Manner = kind < 0.55 ? "untagged" : kind < 0.7 ? "tagged" : "resumable";
  return new SocketClient(world, name, keys, manner);
}

function readMetrics(world: World): void {
  world.call(
    ({ meter }) => meter.read(),
    (end) => {
      if (typeof end === "object") world.ledger.counted(end.result.sums);
    },
  );
}
