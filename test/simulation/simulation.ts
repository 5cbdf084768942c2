import { PolledClient } from "./polled-client.ts";
import { SocketHost } from "./socket-host.ts";
import { WireClient } from "./wire-client.ts";
import { type Faults, World } from "./world.ts";

const NAMES = ["ada", "bob", "cy", "dee", "eve", "fay"];
const ACTIONS = 120;
/** Beyond the longest lease, which is that of a session lost to a fault, and the longest pause between notices. */
const ANSWERED_WITHIN_MS = 180_000;
/** Beyond the idle time of sessions, and pruning. */
const GONE_WITHIN_MS = 300_000;
const SWEPT_WITHIN_MS = 30_000;
/** Beyond the grace period, and the pauses between attempts to withdraw a request. */
const SETTLED_AFTER_MS = 30_000;

export interface Story {
  readonly seed: number;
  readonly grants: number;
  /** What went wrong, and what had happened until then. */
  readonly problem?: { readonly message: string; readonly story: readonly string[] };
}

/** Runs one world from its seed to its end. */
export function simulate(seed: number): Story {
  const world = new World(seed, faultsOf(seed));
  try {
    run(world);
    return { seed, grants: world.checks.grants };
  } catch (error) {
    const message = error instanceof Error ? (error.stack ?? error.message) : String(error);
    return { seed, grants: world.checks.grants, problem: { message, story: world.story } };
  }
}

/** Some worlds are quiet, some are wild. */
function faultsOf(seed: number): Faults {
  const level = [0, 0.01, 0.05, 0.15][seed % 4] ?? 0;
  return { call: level, crash: level / 2, effect: level / 5, sleep: seed % 3 === 0 ? 0.3 : 0.05 };
}

function run(world: World): void {
  const { schedule } = world;
  const keys = ["lock", "pool", "other"].slice(0, schedule.between(1, 3));
  const names = NAMES.slice(0, schedule.between(2, NAMES.length));
  const clients = names.map((name) =>
    schedule.happens(0.3)
      ? new PolledClient(world, name, keys)
      : new WireClient(world, name, keys, schedule.happens(0.7)),
  );
  world.clients.push(...clients);
  for (const client of clients) if (client instanceof WireClient) client.connect();
  for (let action = 0; action < ACTIONS; action++) {
    schedule.runUntil(schedule.now + schedule.between(1, 500));
    schedule.pick(clients)?.act();
  }
  world.calm();
  schedule.runUntil(schedule.now + SETTLED_AFTER_MS);
  for (const { place } of clients) if (place) world.checks.noGhosts(place.session, place.count);
  const [stays, vanishes] = [
    clients.filter((_, index) => index % 4 !== 3),
    clients.filter((_, index) => index % 4 === 3),
  ];
  for (const client of vanishes) client.vanish();
  for (const client of stays) client.leave();
  const until = schedule.now + ANSWERED_WITHIN_MS;
  while (schedule.now < until && stays.some(({ unanswered }) => unanswered.length > 0)) {
    schedule.runUntil(schedule.now + 500);
    for (const client of stays) if (client instanceof PolledClient) client.act();
  }
  const unanswered = stays.flatMap((client) => client.unanswered);
  if (unanswered.length > 0) world.checks.fail(`never answered: ${unanswered.join("; ")}`);
  for (let round = 0; round < GONE_WITHIN_MS / 1_000; round++) {
    schedule.runUntil(schedule.now + 1_000);
    for (const client of stays) if (client instanceof PolledClient) client.act();
  }
  world.checks.nothingLeftAtKeys();
  world.checks.nothingLeftInSessions({ isSwept: false });
  for (const session of world.sessions.values()) if (session instanceof SocketHost) session.sweep();
  schedule.runUntil(schedule.now + SWEPT_WITHIN_MS);
  world.checks.nothingLeftInSessions({ isSwept: true });
}
