/** The workloads of docs/benchmarks.md: what holdfast and its peers are asked to do, in turns. */
import { Crew, type Result, type Server } from "../measure.ts";
import type { Options, Pattern, Transport } from "../options.ts";
import { inTurns } from "../turns.ts";

export interface Workload {
  readonly pattern: Pattern;
  readonly clients: number;
  readonly title: string;
}

export const WORKLOADS: readonly Workload[] = [
  { pattern: "own", clients: 1, title: "own key, 1 client" },
  { pattern: "own", clients: 10, title: "own keys, 10 clients" },
  { pattern: "own", clients: 50, title: "own keys, 50 clients" },
  { pattern: "fresh", clients: 1, title: "a new key each time, 1 client" },
  { pattern: "fresh", clients: 10, title: "a new key each time, 10 clients" },
  { pattern: "hot", clients: 10, title: "one key, 10 clients" },
  { pattern: "visit", clients: 10, title: "connect, lock, release, go: 10 clients" },
];

/** A server under a name in the report, by the carrier it is reached on. */
export interface Contender {
  readonly label: string;
  readonly server: Server;
  readonly transport: Transport;
  readonly isDurable: boolean;
  /** Measured only on keys of one's own: the other carriers of holdfast. */
  readonly isAside: boolean;
}

export interface Measured {
  readonly label: string;
  readonly isDurable: boolean;
  readonly result: Result;
}

export interface WorkloadResult extends Workload {
  readonly measured: readonly Measured[];
}

export async function measureWorkload(
  workload: Workload,
  contenders: readonly Contender[],
  options: Options,
  isStopped: () => boolean,
): Promise<WorkloadResult> {
  const taking = contenders.filter(({ isAside }) => !isAside || workload.pattern === "own");
  const crews = await Promise.all(
    taking.map(({ server, transport }) => Crew.connect(server, { ...workload, transport })),
  );
  const results = await inTurns(crews, options, isStopped);
  return {
    ...workload,
    measured: taking.flatMap(({ label, isDurable }, index) => {
      const result = results[index];
      return result ? [{ label, isDurable, result }] : [];
    }),
  };
}
