/** Acquire and release, over and over: holdfast and its peers in turns, on the same workloads. */
import { setTimeout as pause } from "node:timers/promises";
import type { Address } from "./load/channel.ts";
import type { Transport } from "./load/client.ts";
import { Load } from "./load/load.ts";
import type { Pattern, Turn } from "./load/work.ts";
import { cpuMs } from "./machine.ts";

export interface Workload {
  readonly pattern: Pattern;
  readonly clients: number;
  readonly title: string;
}

export const WORKLOADS: readonly Workload[] = [
  { pattern: "own", clients: 1, title: "own key, 1 client" },
  { pattern: "own", clients: 10, title: "own keys, 10 clients" },
  { pattern: "own", clients: 50, title: "own keys, 50 clients" },
  { pattern: "fresh", clients: 50, title: "a new key each time, 50 clients" },
  { pattern: "hot", clients: 1, title: "one key, 1 client" },
  { pattern: "hot", clients: 10, title: "one key, 10 clients" },
];

/** A server under a name in the report, by the protocol in which it is spoken to. */
export interface Contender {
  readonly label: string;
  readonly transport: Transport;
  readonly address: Address;
  readonly pid: number;
  readonly isDurable: boolean;
  /** Whether it takes part in the workload. */
  takes(workload: Workload): boolean;
}

/** Times in milliseconds. */
export interface Latency {
  readonly p50: number;
  readonly p99: number;
}

export interface Result {
  readonly cyclesPerSecond: number;
  /** Cycles per second of each turn. */
  readonly turns: readonly number[];
  readonly cycle: Latency;
  /** From the sending of a release to the grant of a client that was waiting by then; undefined if none ever was. */
  readonly handOver: Latency | undefined;
  /** Median hand-over of each turn. */
  readonly handOverTurns: readonly number[];
  /** Processor time of the server per cycle, in milliseconds; NaN if unknown. It hardly depends on what else is running. */
  readonly cpuPerCycle: number;
  /** Share of the time in which the clients' process was busy. Near 1 the clients are the limit, not the server. */
  readonly clientsBusy: number;
}

export interface Measured {
  readonly label: string;
  readonly isDurable: boolean;
  readonly result: Result;
}

export interface WorkloadResult extends Workload {
  readonly measured: readonly Measured[];
}

export interface TurnOptions {
  /** Measured time of a workload and contender, over all rounds. */
  readonly seconds: number;
  readonly rounds: number;
}

const WARM_UP_MS = 500;
/** Uncounted time at the start of a turn. */
const LEAD_IN_MS = 150;
/** After a turn a server tidies up behind its clients; the next one is not to pay for that. */
const SETTLE_MS = 50;

/**
 * Every contender has a turn of every workload in each round, so that whatever else the machine does hits all of them, and
 * any two figures may be compared.
 */
export async function measureCycles(
  contenders: readonly Contender[],
  workloads: readonly Workload[],
  options: TurnOptions,
  say: (line: string) => void,
): Promise<WorkloadResult[]> {
  await using crews = new Crews(contenders, workloads);
  for (const crew of crews.all) await crew.warmUp();
  const turnMs = (options.seconds / options.rounds) * 1000;
  for (let round = 0; round < options.rounds; round++) {
    // Each round in another order: a turn may be hit by what the one before it has left behind.
    const first = round % crews.all.length;
    for (const crew of [...crews.all.slice(first), ...crews.all.slice(0, first)]) await crew.work(turnMs);
    say(`round ${round + 1} of ${options.rounds}`);
  }
  return workloads.map((workload) => ({
    ...workload,
    measured: crews.all
      .filter((crew) => crew.workload === workload)
      .map(({ contender: { label, isDurable }, result }) => ({ label, isDurable, result })),
  }));
}

/** One load process for each contender: it speaks one protocol only, and does that as fast as it can. */
class Crews implements AsyncDisposable {
  readonly all: readonly Crew[];
  readonly #loads = new Map<Contender, Load>();

  constructor(contenders: readonly Contender[], workloads: readonly Workload[]) {
    for (const contender of contenders) this.#loads.set(contender, new Load());
    this.all = workloads.flatMap((workload) =>
      [...this.#loads]
        .filter(([contender]) => contender.takes(workload))
        .map(([contender, load]) => new Crew(contender, workload, load)),
    );
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const load of this.#loads.values()) await load[Symbol.asyncDispose]();
  }
}

class Crew {
  readonly contender: Contender;
  readonly workload: Workload;
  readonly #load: Load;
  readonly #turns: Turn[] = [];
  #cpuMs = 0;

  constructor(contender: Contender, workload: Workload, load: Load) {
    this.contender = contender;
    this.workload = workload;
    this.#load = load;
  }

  async warmUp(): Promise<void> {
    await this.#turn(WARM_UP_MS);
  }

  async work(ms: number): Promise<void> {
    const before = cpuMs(this.contender.pid);
    this.#turns.push(await this.#turn(ms));
    this.#cpuMs += cpuMs(this.contender.pid) - before;
    await pause(SETTLE_MS);
  }

  get result(): Result {
    const turns = this.#turns;
    const sum = (of: (turn: Turn) => number) => turns.reduce((total, turn) => total + of(turn), 0);
    const handOvers = joined(turns.map((turn) => turn.handOvers));
    return {
      cyclesPerSecond: sum(({ cycles }) => cycles.length) / sum(({ seconds }) => seconds),
      turns: turns.map(({ cycles, seconds }) => cycles.length / seconds),
      cycle: latencyOf(joined(turns.map((turn) => turn.cycles))),
      handOver: handOvers.length > 0 ? latencyOf(handOvers) : undefined,
      handOverTurns: turns.map((turn) => latencyOf(turn.handOvers).p50),
      cpuPerCycle: this.#cpuMs / sum(({ cyclesRun }) => cyclesRun),
      clientsBusy: sum(({ busy }) => busy) / turns.length,
    };
  }

  async #turn(ms: number): Promise<Turn> {
    const { transport, address, label } = this.contender;
    const { pattern, clients } = this.workload;
    try {
      return await this.#load.run({ work: "cycles", transport, address, pattern, clients, leadInMs: LEAD_IN_MS, ms });
    } catch (error) {
      throw new Error(`${label}, ${this.workload.title}: ${(error as Error).message}`, { cause: error });
    }
  }
}

function joined(parts: readonly Float64Array[]): Float64Array {
  const whole = new Float64Array(parts.reduce((length, part) => length + part.length, 0));
  let at = 0;
  for (const part of parts) {
    whole.set(part, at);
    at += part.length;
  }
  return whole;
}

function latencyOf(times: Float64Array): Latency {
  const sorted = times.toSorted();
  const at = (share: number) => sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? Number.NaN;
  return { p50: at(0.5), p99: at(0.99) };
}
