import { parseArgs } from "node:util";

export const TRANSPORTS = ["tcp", "ws", "rest"] as const;
export type Transport = (typeof TRANSPORTS)[number];
/**
 * `own`: each client cycles on a key of its own; `hot`: all of them on one key; `fresh`: each cycle on a new key; `visit`: each
 * cycle on a new connection.
 */
export type Pattern = "own" | "hot" | "fresh" | "visit";
/** Parts of the report: holdfast beside the floor; hand-overs by transport; the front door beside none; majorities; sticky locks; fresh keys. */
export const SECTIONS = ["cases", "hand-over", "door", "quorum", "sticky", "fresh"] as const;
export type Section = (typeof SECTIONS)[number];

/** Another server of the three-line protocol, reached over TCP. */
export interface Target {
  readonly name: string;
  readonly host: string;
  readonly port: number;
}

export interface Options {
  /** Measured time of a case, per server, over all rounds. */
  readonly seconds: number;
  readonly rounds: number;
  readonly clients: readonly number[];
  readonly sections: readonly Section[];
  readonly transports: readonly Transport[];
  readonly patterns: readonly Pattern[];
  readonly targets: readonly Target[];
  readonly json: string | undefined;
  /** Measure beside other servers instead, and write docs/benchmarks.md. */
  readonly report: boolean;
}

export class UsageError extends Error {}

export const USAGE = `Usage: npm run bench -- [options]
  --seconds N             measured seconds per case and server (3)
  --rounds N              turns into which they are split, servers alternating (6)
  --clients N,N           numbers of clients (1,10,50)
  --sections LIST         parts of the report: cases,hand-over,door,quorum,sticky,fresh (all)
  --transports LIST       transports of cases and door: tcp,ws,rest (all)
  --patterns LIST         patterns of cases: own (one key per client), hot (one key for all), fresh (a new key for each
                          cycle), visit (a new connection for each cycle) (own,hot)
  --target [NAME=]H:P     also measure this server, over TCP; repeatable
  --json FILE             where the results go (bench/results/<time>.json)
  --report                instead of all that: measure beside Redis, etcd and dflockd, whichever is installed, and write
                          docs/benchmarks.md, its charts and the figures of the README; takes --seconds and --rounds

How fast clients connect, and come back after a crash: npm run bench:connections -- [options]`;

/** What was asked for, or undefined when it was help. */
export function readOptions(args: string[]): Options | undefined {
  const { values } = parse(args);
  if (values.help) return undefined;
  return {
    seconds: positive("--seconds", values.seconds),
    rounds: whole("--rounds", values.rounds),
    clients: values.clients.split(",").map((text) => whole("--clients", text)),
    sections: listOf("--sections", values.sections, SECTIONS),
    transports: listOf("--transports", values.transports, TRANSPORTS),
    patterns: listOf("--patterns", values.patterns, ["own", "hot", "fresh", "visit"]),
    targets: values.target.map(targetFrom),
    json: values.json,
    report: values.report,
  };
}

function parse(args: string[]) {
  try {
    return parseArgs({
      args,
      options: {
        seconds: { type: "string", default: "3" },
        rounds: { type: "string", default: "6" },
        clients: { type: "string", default: "1,10,50" },
        sections: { type: "string", default: SECTIONS.join() },
        transports: { type: "string", default: TRANSPORTS.join() },
        patterns: { type: "string", default: "own,hot" },
        target: { type: "string", multiple: true, default: [] },
        json: { type: "string" },
        report: { type: "boolean", default: false },
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

function whole(flag: string, text: string): number {
  const value = positive(flag, text);
  if (!Number.isInteger(value)) throw new UsageError(`${flag} must be whole`);
  return value;
}

function listOf<Word extends string>(flag: string, text: string, words: readonly Word[]): Word[] {
  return text.split(",").map((word) => {
    const known = words.find((each) => each === word);
    if (!known) throw new UsageError(`${flag} knows ${words.join(", ")}, not ${word}`);
    return known;
  });
}

function targetFrom(text: string): Target {
  const [, name, host, port] = /^(?:([^=]+)=)?(.+):([0-9]+)$/.exec(text) ?? [];
  if (!host || !port) throw new UsageError(`--target must look like [NAME=]HOST:PORT, not ${text}`);
  return { name: name ?? `${host}:${port}`, host: host.replace(/^\[(.*)\]$/, "$1"), port: Number(port) };
}
