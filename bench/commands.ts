/** How long `holdfast file try` and `holdfast run` take from start to exit, beside `flock` and a Node that does nothing. */
import { spawnSync } from "node:child_process";
import { rmSync } from "node:fs";
import { loadavg } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { inWords, isNoisy, ratioOf } from "./ratio.ts";
import { COMMAND, Lab } from "./servers.ts";

const AIM_MS = 80;

const { values } = parseArgs({ options: { rounds: { type: "string", default: "40" } } });
const rounds = Number(values.rounds);
await using lab = new Lab();
const { folder } = lab;

interface Candidate {
  readonly name: string;
  readonly command: readonly [string, ...string[]];
  /** Done before each turn, outside the measured time. */
  readonly prepare?: () => void;
  readonly exitCode?: number;
  readonly turns: number[];
}

const free = join(folder, "free");
const held = join(folder, "held");
const file = (path: string): [string, ...string[]] => [process.execPath, COMMAND, "file", "try", path];

const run = (...args: string[]): [string, ...string[]] => [process.execPath, COMMAND, "run", ...args, "--", "true"];
const server = await lab.startNode();

const NODE: Candidate = { name: "node -e 0", command: [process.execPath, "-e", "0"], turns: [] };
const TRY: Candidate = {
  name: "holdfast file try, free",
  command: file(free),
  prepare: () => rmSync(free, { force: true }),
  turns: [],
};
const hasFlock = spawnSync("flock", ["--version"]).status === 0;
const candidates: readonly Candidate[] = [
  { name: "sh -c :", command: ["sh", "-c", ":"], turns: [] },
  ...(hasFlock
    ? [{ name: "flock", command: ["flock", "-n", join(folder, "flock"), "true"], turns: [] } as Candidate]
    : []),
  NODE,
  TRY,
  { name: "holdfast file try, held", command: file(held), exitCode: 1, turns: [] },
  { name: "holdfast run --file", command: run("--file", join(folder, "run")), turns: [] },
  { name: "holdfast run --key", command: run("--key", "bench", "--url", server.url), turns: [] },
  // All of its own start-up, and next to nothing of a network.
  {
    name: "  the same, no server",
    command: run("--key", "bench", "--quiet", "--url", "http://127.0.0.1:1"),
    exitCode: 69,
    turns: [],
  },
];

function takeTurn({ name, command: [program, ...args], prepare, exitCode = 0 }: Candidate): number {
  prepare?.();
  const startedAt = performance.now();
  const { status } = spawnSync(program, args);
  const ms = performance.now() - startedAt;
  if (status !== exitCode) throw new Error(`${name} ended with ${status}`);
  return ms;
}

function median(turns: readonly number[]): number {
  return turns.toSorted((a, b) => a - b)[Math.floor(turns.length / 2)] ?? Number.NaN;
}

spawnSync(file(held)[0], file(held).slice(1));
for (const candidate of candidates) takeTurn(candidate);
for (let round = 0; round < rounds; round += 1)
  for (const candidate of candidates) candidate.turns.push(takeTurn(candidate));
for (const { name, turns } of candidates)
  console.log(
    `${name.padEnd(26)} ${median(turns).toFixed(1).padStart(6)} ms   ${inWords(ratioOf(turns, NODE.turns))} of node -e 0`,
  );
const noise = isNoisy(ratioOf(TRY.turns, NODE.turns)) ? "; too noisy to be believed: repeat on a quiet machine" : "";
console.log(
  `verdict: aim of ${AIM_MS} ms ${median(TRY.turns) <= AIM_MS ? "MET" : "MISSED"}, load ${loadavg()[0]?.toFixed(1)}${noise}`,
);
