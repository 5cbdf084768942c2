import { performance } from "node:perf_hooks";
import { type Address, type LockClient, openLockClient } from "./client.ts";
import { cpuMs } from "./cpu.ts";
import type { Pattern, Transport } from "./options.ts";

export interface Case {
  readonly transport: Transport;
  readonly pattern: Pattern;
  readonly clients: number;
}

export interface Server {
  readonly name: string;
  /** Where it is reached, by the carriers it knows. */
  readonly addresses: { readonly [T in Transport]?: Address };
  /** Opens a client of a server that speaks a protocol of its own. */
  readonly connect?: () => Promise<LockClient>;
  /** The transports over which it hands locks over one by one. */
  readonly locksOver: readonly Transport[];
  /** Its processes; none if it was not started by the benchmark. */
  readonly pids: readonly number[];
}

/** Times in milliseconds. */
export interface Latency {
  readonly p50: number;
  readonly p99: number;
}

export interface Result {
  /** Cycles that ended within the measured time. */
  readonly cycles: number;
  readonly seconds: number;
  readonly cyclesPerSecond: number;
  /** Cycles per second of each turn. */
  readonly turns: readonly number[];
  readonly cycle: Latency;
  readonly acquire: Latency;
  /** From the sending of a release to the grant of a client that stood in line by then; none if nobody ever did. */
  readonly handOver: (Latency & { readonly count: number }) | undefined;
  /** Median hand-over of each turn. */
  readonly handOverTurns: readonly number[];
  /** Processor time of the server per cycle, in milliseconds, if known. It hardly depends on what else is running. */
  readonly cpuPerCycle: number | undefined;
  /** Share of the time in which this process was busy. Near 1 the clients are the limit, not the server. */
  readonly clientsBusy: number;
}

/** Longer than any line of clients takes, shorter than a benchmark that hangs. */
const WAIT_SECONDS = 60;
/** Uncounted time at the start of every turn; it lasts at least until each client has had a cycle, so that none comes from a pause. */
const LEAD_IN_MS = 200;

let freshKeys = 0;

/** The key of a client's next cycle, by its place in the crew. */
const KEYS: Readonly<Record<Pattern, (index: number) => string>> = {
  own: (index) => `bench-own-${index}`,
  visit: (index) => `bench-own-${index}`,
  hot: () => "bench-hot",
  fresh: () => `bench-fresh-${++freshKeys}`,
};

/** The clients of one case at one server. They stay connected from turn to turn, so that only cycles are measured. */
export class Crew {
  readonly #server: Server;
  readonly #clients: readonly LockClient[];
  /** Set if a client connects for each cycle. */
  readonly #open: (() => Promise<LockClient>) | undefined;
  readonly #keyOf: (index: number) => string;
  readonly #hasHandOvers: boolean;
  readonly #cycles: number[] = [];
  readonly #acquires: number[] = [];
  readonly #handOvers: number[] = [];
  readonly #turns: number[] = [];
  readonly #handOverTurns: number[] = [];
  #lastReleaseAt = 0;
  #measuredMs = 0;
  #busyMs = 0;
  #cpuMs = 0;
  /** Cycles of all turns, their lead-in included. */
  #cyclesRun = 0;

  private constructor(
    server: Server,
    { transport, pattern }: Case,
    clients: readonly LockClient[],
    open: () => Promise<LockClient>,
  ) {
    this.#server = server;
    this.#clients = clients;
    this.#open = pattern === "visit" ? open : undefined;
    this.#hasHandOvers = server.locksOver.includes(transport) && pattern === "hot";
    this.#keyOf = KEYS[pattern];
  }

  static async connect(server: Server, kase: Case): Promise<Crew> {
    const { transport, clients } = kase;
    const address = server.addresses[transport];
    const open = server.connect ?? (address && (() => openLockClient(transport, address)));
    if (!open) throw new Error(`${server.name} does not speak ${transport}`);
    const connections = await Promise.all(Array.from({ length: clients }, open));
    return new Crew(server, kase, connections, open);
  }

  /** Cycles that count for nothing: keys get founded, code gets hot. */
  async warmUp(ms: number, isStopped: () => boolean): Promise<void> {
    const until = performance.now() + ms;
    await this.#cycleUntil(until, isStopped, Number.POSITIVE_INFINITY);
    this.#cyclesRun = 0;
  }

  /** All clients cycle for `ms`, which count, after a lead-in, which does not. Every cycle begun is finished. */
  async work(ms: number, isStopped: () => boolean): Promise<void> {
    const cpuBefore = this.#serverCpuMs();
    await this.#cycleUntil(performance.now() + LEAD_IN_MS, isStopped, Number.POSITIVE_INFINITY);
    const from = performance.now();
    const before = performance.eventLoopUtilization();
    const countBefore = this.#cycles.length;
    const handOversBefore = this.#handOvers.length;
    await this.#cycleUntil(from + ms, isStopped, from);
    this.#cpuMs += this.#serverCpuMs() - cpuBefore;
    this.#turns.push(((this.#cycles.length - countBefore) / ms) * 1000);
    this.#handOverTurns.push(latency(this.#handOvers.slice(handOversBefore)).p50);
    this.#measuredMs += ms;
    this.#busyMs += performance.eventLoopUtilization(before).utilization * ms;
  }

  result(): Result {
    const seconds = this.#measuredMs / 1000;
    return {
      cycles: this.#cycles.length,
      seconds,
      cyclesPerSecond: this.#cycles.length / seconds,
      turns: this.#turns,
      cycle: latency(this.#cycles),
      acquire: latency(this.#acquires),
      handOver: this.#handOvers.length > 0 ? { ...latency(this.#handOvers), count: this.#handOvers.length } : undefined,
      handOverTurns: this.#handOverTurns,
      cpuPerCycle: Number.isNaN(this.#cpuMs) ? undefined : this.#cpuMs / this.#cyclesRun,
      clientsBusy: this.#busyMs / this.#measuredMs,
    };
  }

  close(): void {
    for (const client of this.#clients) client.close();
  }

  #serverCpuMs(): number {
    const { pids } = this.#server;
    return pids.length === 0 ? Number.NaN : pids.reduce((sum, pid) => sum + (cpuMs(pid) ?? Number.NaN), 0);
  }

  /** Counts the cycles that end between `from` and `until`. */
  async #cycleUntil(until: number, isStopped: () => boolean, from: number): Promise<void> {
    try {
      await Promise.all(
        this.#clients.map(async (client, index) => {
          while (performance.now() < until && !isStopped()) {
            await this.#cycle(client, this.#keyOf(index), from, until);
          }
        }),
      );
    } catch (error) {
      throw new Error(`${this.#server.name}: ${(error as Error).message}`, { cause: error });
    }
  }

  async #cycle(resident: LockClient, key: string, from: number, until: number): Promise<void> {
    const startedAt = performance.now();
    const client = this.#open ? await this.#open() : resident;
    const token = await client.acquire(key, WAIT_SECONDS);
    const grantedAt = performance.now();
    // Of a key with one holder at a time, the last release before a grant is the one that made room for it.
    const releasedAt = this.#lastReleaseAt;
    this.#lastReleaseAt = grantedAt;
    await client.release(key, token);
    if (this.#open) client.close();
    const endedAt = performance.now();
    this.#cyclesRun += 1;
    if (endedAt < from || endedAt > until) return;
    this.#cycles.push(endedAt - startedAt);
    this.#acquires.push(grantedAt - startedAt);
    if (this.#hasHandOvers && startedAt < releasedAt) this.#handOvers.push(grantedAt - releasedAt);
  }
}

function latency(times: readonly number[]): Latency {
  const sorted = Float64Array.from(times).sort();
  const at = (share: number) => sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? Number.NaN;
  return { p50: at(0.5), p99: at(0.99) };
}
