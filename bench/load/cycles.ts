/** Clients that take and release locks in a loop. */
import { performance } from "node:perf_hooks";
import { setTimeout as pause } from "node:timers/promises";
import { type LockClient, openClient } from "./client.ts";
import type { Ask, Pattern, Turn } from "./work.ts";

let freshKeys = 0;

const KEYS: Readonly<Record<Pattern, (client: number) => string>> = {
  own: (client) => `bench-own-${client}`,
  hot: () => "bench-hot",
  fresh: () => `bench-fresh-${process.pid}-${++freshKeys}`,
};

/** Connects, cycles, and leaves. Every cycle that was begun is finished; only those that end within the measured time count. */
export async function cycle(ask: Ask<"cycles">): Promise<Turn> {
  const { transport, address, pattern, clients, leadInMs, ms } = ask;
  const open = await Promise.all(Array.from({ length: clients }, () => openClient(transport, address)));
  const crew = new Crew(open, pattern);
  const finished = crew.start();
  await pause(leadInMs);
  crew.isCounting = true;
  const [from, before] = [performance.now(), performance.eventLoopUtilization()];
  await pause(ms);
  crew.isCounting = false;
  const busy = performance.eventLoopUtilization(before).utilization;
  const seconds = (performance.now() - from) / 1000;
  crew.isOver = true;
  await finished;
  await Promise.all(open.map((client) => client.close()));
  return { ...crew.counted, seconds, busy };
}

class Crew {
  isCounting = false;
  isOver = false;
  readonly #clients: readonly LockClient[];
  readonly #keyOf: (client: number) => string;
  /** Whether one client holds at a time, so that the last release before a grant is the one that made room for it. */
  readonly #isHandedOver: boolean;
  readonly #cycles: number[] = [];
  readonly #handOvers: number[] = [];
  #cyclesRun = 0;
  #lastReleaseAt = 0;

  constructor(clients: readonly LockClient[], pattern: Pattern) {
    this.#clients = clients;
    this.#keyOf = KEYS[pattern];
    this.#isHandedOver = pattern === "hot";
  }

  get counted() {
    return {
      cycles: Float64Array.from(this.#cycles),
      handOvers: Float64Array.from(this.#handOvers),
      cyclesRun: this.#cyclesRun,
    };
  }

  /** Resolves when it is over and every client has ended its last cycle. */
  async start(): Promise<void> {
    await Promise.all(
      this.#clients.map((client, index) => new Promise<void>((done) => this.#run(client, index, done))),
    );
  }

  #run(client: LockClient, index: number, done: () => void): void {
    let [key, startedAt] = ["", 0];
    const begin = () => {
      if (this.isOver) return done();
      key = this.#keyOf(index);
      startedAt = performance.now();
      client.acquire(key, granted);
    };
    const granted = (token: string) => {
      const grantedAt = performance.now();
      const wasWaiting = this.#isHandedOver && startedAt < this.#lastReleaseAt;
      if (wasWaiting && this.isCounting) this.#handOvers.push(grantedAt - this.#lastReleaseAt);
      this.#lastReleaseAt = grantedAt;
      client.release(key, token, released);
    };
    const released = () => {
      this.#cyclesRun += 1;
      if (this.isCounting) this.#cycles.push(performance.now() - startedAt);
      begin();
    };
    begin();
  }
}
