import { parseArgs } from "node:util";

/** Parts of a run: cycles beside other servers; what the Node host takes; sticky locks; majorities. */
export const PARTS = ["cycles", "capacity", "sticky", "quorum"] as const;
export type Part = (typeof PARTS)[number];

export interface Options {
  /** Measured time of a workload and server, over all rounds. */
  readonly seconds: number;
  readonly rounds: number;
  readonly only: readonly Part[];
  /** Leave out whatever no goal depends on. */
  readonly goals: boolean;
  /** Write docs/benchmarks.md and the figures of the README. */
  readonly report: boolean;
  /** File that gets all figures, to be kept. */
  readonly json: string | undefined;
  /** Write the page from such a file instead of measuring. */
  readonly from: string | undefined;
}

export class UsageError extends Error {}

export const USAGE = `Usage: npm run bench -- [options]
  Measures holdfast beside Redis, etcd and dflockd, whichever is installed, and prints every goal with its value.
  --goals          only what the goals need
  --report         all of it, and write docs/benchmarks.md, its charts and the figures of the README
  --only LIST      parts of it: cycles (beside other servers), capacity (connections, memory, start-up, a crash),
                   sticky (locks that the client keeps), quorum (a group of three) (cycles,capacity)
  --seconds N      measured seconds per workload and server (3)
  --rounds N       turns into which they are split, servers and workloads alternating (6)
  --json FILE      also write all figures to this file
  --from FILE      measure nothing: use the figures of such a file`;

/** What was asked for, or undefined when it was help. */
export function readOptions(args: string[]): Options | undefined {
  const { values } = parse(args);
  if (values.help) return undefined;
  const rounds = positive("--rounds", values.rounds);
  if (!Number.isInteger(rounds)) throw new UsageError("--rounds must be whole");
  const only = values.only.split(",").map(partFrom);
  if (values.report && !(only.includes("cycles") && only.includes("capacity"))) {
    throw new UsageError("--report needs cycles and capacity");
  }
  const { goals, report, json, from } = values;
  return { seconds: positive("--seconds", values.seconds), rounds, only, goals, report, json, from };
}

function parse(args: string[]) {
  try {
    return parseArgs({
      args,
      options: {
        seconds: { type: "string", default: "3" },
        rounds: { type: "string", default: "6" },
        only: { type: "string", default: "cycles,capacity" },
        goals: { type: "boolean", default: false },
        report: { type: "boolean", default: false },
        json: { type: "string" },
        from: { type: "string" },
        help: { type: "boolean", short: "h", default: false },
      },
    });
  } catch (error) {
    throw new UsageError((error as Error).message);
  }
}

function positive(flag: string, text: string): number {
  const value = Number(text);
  if (!Number.isFinite(value) || value <= 0) throw new UsageError(`${flag} must be a number above 0`);
  return value;
}

function partFrom(word: string): Part {
  const part = PARTS.find((each) => each === word);
  if (!part) throw new UsageError(`--only knows ${PARTS.join(", ")}, not ${word}`);
  return part;
}
