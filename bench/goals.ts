/** What the Node host has to reach, and what it is meant to reach. */
import { HELD_KEYS_AT_START, RETURNING } from "./capacity.ts";
import { DFLOCKD, ETCD, IN_MEMORY, ON_DISK, REDIS, REST, WEBSOCKET } from "./contenders.ts";
import type { Result } from "./cycles.ts";
import type { Findings } from "./findings.ts";
import type { Pattern } from "./load/work.ts";
import { inWords, isNoisy, type Ratio, ratioOf } from "./ratio.ts";

export type Verdict = "met" | "missed" | "not measured";

export interface Goal {
  readonly title: string;
  readonly must: string;
  readonly aim: string;
  readonly value: string;
  /** Of what must be; where there is only an aim, of that. */
  readonly verdict: Verdict;
  /** Whether the aim is reached too; undefined if there is none. */
  readonly isAimReached: boolean | undefined;
  /** The turns disagree by more than a third. */
  readonly isDoubtful: boolean;
}

interface Rule {
  readonly title: string;
  readonly value: number | Ratio | undefined;
  readonly order: "at least" | "at most";
  readonly must?: number;
  readonly aim?: number;
  readonly show?: (value: number) => string;
}

const whole = (value: number) => Math.round(value).toLocaleString("en-US");
const perSecond = (value: number) => `${whole(value)}/s`;
const kilobytes = (bytes: number) => `${(bytes / 1024).toFixed(1)} KB`;
const megabytes = (bytes: number) => `${(bytes / 2 ** 20).toFixed(0)} MB`;
const seconds = (ms: number) => `${(ms / 1000).toFixed(2)} s`;
const KB = 1024;

function rulesOf({ workloads, capacity }: Findings): Rule[] {
  const resultOf = (label: string, pattern: Pattern, clients: number) =>
    workloads
      .find((workload) => workload.pattern === pattern && workload.clients === clients)
      ?.measured.find((measured) => measured.label === label)?.result;
  const ratio = (one: Result | undefined, other: Result | undefined, of: "turns" | "handOverTurns" = "turns") =>
    one && other && ratioOf(one[of], other[of]);
  const ours = (pattern: Pattern, clients: number) => resultOf(ON_DISK, pattern, clients);
  const clients = RETURNING.holders + RETURNING.waiters;
  const { connectsPerSecond, bytesPerConnection, startMs, comeBack } = capacity ?? {};
  const atLeast = { order: "at least" } as const;
  const atMost = { order: "at most" } as const;
  return [
    {
      ...atLeast,
      title: "own keys, 50 clients, of Redis with fsync always",
      value: ratio(ours("own", 50), resultOf(REDIS, "own", 50)),
      must: 0.5,
      aim: 0.9,
    },
    {
      ...atLeast,
      title: "own keys, 50 clients, of etcd",
      value: ratio(ours("own", 50), resultOf(ETCD, "own", 50)),
      must: 3,
    },
    {
      ...atLeast,
      title: "a new key each time, 50 clients, of own keys",
      value: ratio(ours("fresh", 50), ours("own", 50)),
      must: 0.75,
    },
    { ...atLeast, title: "one client, of etcd", value: ratio(ours("own", 1), resultOf(ETCD, "own", 1)), must: 1 },
    {
      ...atLeast,
      title: "one hot key, 10 clients, of one client alone",
      value: ratio(ours("hot", 10), ours("hot", 1)),
      must: 1,
    },
    {
      ...atLeast,
      title: "in memory, own keys, 50 clients, of dflockd",
      value: ratio(resultOf(IN_MEMORY, "own", 50), resultOf(DFLOCKD, "own", 50)),
      aim: 1,
    },
    {
      ...atMost,
      title: "hand-over to REST, of one to WebSocket",
      value: ratio(resultOf(REST, "hot", 10), resultOf(WEBSOCKET, "hot", 10), "handOverTurns"),
      must: 2,
    },
    ...(["tcp", "ws"] as const).flatMap((transport): Rule[] => {
      const name = transport === "tcp" ? "TCP" : "WebSocket";
      return [
        {
          ...atLeast,
          title: `${name} clients that connect and have an answer`,
          value: connectsPerSecond?.[transport],
          must: 1_500,
          show: perSecond,
        },
        {
          ...atMost,
          title: `memory of an idle ${name} connection`,
          value: bytesPerConnection?.[transport],
          must: 40 * KB,
          aim: 15 * KB,
          show: kilobytes,
        },
      ];
    }),
    { ...atMost, title: "memory of an idle server", value: capacity?.idleBytes, must: 130 * 2 ** 20, show: megabytes },
    {
      ...atMost,
      title: "memory of a held key",
      value: capacity?.bytesPerHeldKey,
      must: 6 * KB,
      aim: 3 * KB,
      show: kilobytes,
    },
    { ...atMost, title: "start to first answer", value: startMs?.empty, must: 500, show: seconds },
    {
      ...atMost,
      title: `the same with ${whole(HELD_KEYS_AT_START)} held keys`,
      value: startMs?.withHeldKeys,
      must: 2_000,
      show: seconds,
    },
    {
      ...atMost,
      title: `${whole(clients)} clients back after kill -9`,
      value: comeBack && (comeBack.back === clients ? comeBack.allMs : Number.POSITIVE_INFINITY),
      must: 10_000,
      show: (ms) => (Number.isFinite(ms) ? seconds(ms) : `${clients - (comeBack?.back ?? 0)} did not come back`),
    },
    { ...atMost, title: "of them, lost a lock or a place", value: comeBack?.lost, must: 0, show: whole },
  ];
}

export const goalsOf = (findings: Findings): Goal[] => rulesOf(findings).map(judge);

function judge({ title, value, order, must, aim, show = (number) => number.toFixed(2) }: Rule): Goal {
  const number = typeof value === "object" ? value.median : value;
  const isMeasured = number !== undefined && !Number.isNaN(number);
  const reaches = (limit: number) => isMeasured && (order === "at least" ? number >= limit : number <= limit);
  const limit = (bound: number | undefined) =>
    bound === undefined ? "" : `${order === "at least" ? "≥" : "≤"} ${show(bound)}`;
  return {
    title,
    must: limit(must),
    aim: limit(aim),
    value: !isMeasured ? "" : typeof value === "object" ? inWords(value) : show(number),
    verdict: !isMeasured ? "not measured" : reaches(must ?? aim ?? Number.NaN) ? "met" : "missed",
    isAimReached: aim === undefined || !isMeasured ? undefined : reaches(aim),
    isDoubtful: typeof value === "object" && isNoisy(value),
  };
}

/** One line for each goal, as plain text. */
export function goalLines(goals: readonly Goal[]): string[] {
  const width = Math.max(...goals.map(({ title }) => title.length));
  return goals.map(
    ({ title, must, aim, value, verdict, isAimReached, isDoubtful }) =>
      `${title.padEnd(width)}  ${(must || `aim ${aim}`).padEnd(12)}  ${value.padEnd(20)}  ${verdict.toUpperCase()}` +
      (must && isAimReached !== undefined ? `, aim ${aim} ${isAimReached ? "reached" : "not reached"}` : "") +
      (isDoubtful ? " (the turns disagree: repeat on a quiet machine)" : ""),
  );
}
