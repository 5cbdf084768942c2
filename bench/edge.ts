/**
 * `npm run bench:edge -- --url URL --token TOKEN`: how long a client waits at a service that is deployed, from where this is run.
 * Prints a table to publish.
 */
import { randomUUID } from "node:crypto";
import { readFileSync } from "node:fs";
import { parseArgs } from "node:util";
import { WebSocket } from "ws";
import { connect, type Locks, type SocketConstructor } from "../src/client/index.ts";

export interface EdgeOptions {
  readonly url: string;
  readonly token: string | undefined;
  readonly samples: number;
}

export class UsageError extends Error {}

const USAGE = `usage: npm run bench:edge -- --url URL [--token TOKEN | --token-file FILE] [--samples N]

  --url URL           the service, such as https://holdfast.you.workers.dev
  --token TOKEN       its AUTH_TOKEN (other users of this machine see it in ps: prefer the file)
  --token-file FILE   file that holds the token, alone or as AUTH_TOKEN=…, as .secrets does
  --samples N         how often each is measured (default: 50)`;

const MAX_SAMPLES = 10_000;

/** Throws a `UsageError` that names the flag, its value and the rule. */
export function readEdgeOptions(args: readonly string[], env: NodeJS.ProcessEnv = {}): EdgeOptions {
  const values = parsed(args);
  const url = values.url ?? env.HOLDFAST_URL;
  if (url === undefined) throw new UsageError("--url is missing, for example --url https://holdfast.you.workers.dev");
  if (!/^https?:\/\/[^/]/.test(url))
    throw new UsageError(`--url must begin with http:// or https://, not ${JSON.stringify(url)}`);
  if (values.token !== undefined && values["token-file"] !== undefined)
    throw new UsageError("--token and --token-file exclude each other");
  const samples = Number(values.samples);
  if (!Number.isInteger(samples) || samples < 1 || samples > MAX_SAMPLES)
    throw new UsageError(
      `--samples must be a whole number from 1 to ${MAX_SAMPLES}, not ${JSON.stringify(values.samples)}`,
    );
  const file = values["token-file"];
  const token = file === undefined ? (values.token ?? env.HOLDFAST_TOKEN) : tokenIn(file);
  return { url: url.replace(/\/+$/, ""), token, samples };
}

function parsed(args: readonly string[]) {
  const options = {
    url: { type: "string" },
    token: { type: "string" },
    "token-file": { type: "string" },
    samples: { type: "string", default: "50" },
  } as const;
  try {
    return parseArgs({ args: [...args], options }).values;
  } catch (error) {
    throw new UsageError(error instanceof Error ? error.message : String(error));
  }
}

function tokenIn(file: string): string {
  try {
    const text = readFileSync(file, "utf8");
    return (/^AUTH_TOKEN=(.*)$/m.exec(text)?.[1] ?? text).trim();
  } catch {
    throw new UsageError(`--token-file ${file} cannot be read`);
  }
}

/** Milliseconds of each sample, by what was measured. */
export type Timings = ReadonlyMap<string, readonly number[]>;

const now = () => performance.now();

async function timed(act: () => Promise<unknown>): Promise<number> {
  const since = now();
  await act();
  return now() - since;
}

const freshKey = () => `bench-edge/${randomUUID()}`;
const TIMEOUT_MS = 30_000;

/** Measures everything, one sample after the other: what one client waits for, not what the service can carry. */
export async function measureEdge({ url, token, samples }: EdgeOptions, say: (what: string) => void): Promise<Timings> {
  const cuts: (() => void)[] = [];
  const options = { WebSocket: cuttable(cuts), label: "bench:edge", ...(token === undefined ? {} : { token }) };
  const open = async () => {
    const locks = connect(url, options);
    await locks.ready({ timeout: TIMEOUT_MS });
    return locks;
  };
  const timings = new Map<string, number[]>();
  const repeat = async (name: string, sample: () => Promise<number>) => {
    say(name);
    const times: number[] = [];
    for (let count = 0; count < samples; count += 1) times.push(await sample());
    timings.set(name, times);
  };
  await repeat("round trip to the nearest data centre (GET /health)", () => timed(() => fetch(`${url}/health`)));
  await repeat("connect", async () => {
    let locks: Locks | undefined;
    const ms = await timed(async () => {
      locks = await open();
    });
    await locks?.close();
    return ms;
  });
  await using ada = await open();
  await using bob = await open();
  await repeat("first use of a key (acquire)", async () => {
    let release: (() => Promise<unknown>) | undefined;
    const ms = await timed(async () => {
      const lock = await ada.acquire(freshKey(), { timeout: TIMEOUT_MS });
      release = () => lock.release();
    });
    await release?.();
    return ms;
  });
  const key = freshKey();
  const cycle = async () => (await ada.acquire(key, { timeout: TIMEOUT_MS })).release();
  await cycle();
  await repeat("cycle on a key in use (acquire and release)", () => timed(cycle));
  await repeat("hand-over to a waiter (release to grant)", async () => {
    const held = await ada.acquire(key, { timeout: TIMEOUT_MS });
    const waiting = bob.acquire(key, { timeout: TIMEOUT_MS });
    while (((await ada.query(key))?.waiters ?? 0) === 0);
    const since = now();
    void held.release();
    const lock = await waiting;
    const ms = now() - since;
    await lock.release();
    return ms;
  });
  await repeat("reconnect after a cut, locks kept (with the client's pause of 50 to 100 ms)", async () => {
    // A client of its own: one that is cut off again and again pauses for longer each time.
    await using locks = await open();
    const lock = await locks.acquire(freshKey(), { timeout: TIMEOUT_MS });
    const since = now();
    cuts.at(-1)?.();
    for await (const status of locks.statuses()) if (status === "resumed") break;
    const ms = now() - since;
    if (!lock.isHeld) throw new Error("a lock was lost by a reconnect");
    return ms;
  });
  return timings;
}

/** Sockets that can be cut off from here, as a lost network would. */
function cuttable(cuts: (() => void)[]): SocketConstructor {
  return class extends WebSocket {
    constructor(address: string, protocols: string[]) {
      super(address, protocols);
      cuts.push(() => this.terminate());
    }
  } as unknown as SocketConstructor;
}

/** The value below which this part of the samples lies. */
export function percentile(samples: readonly number[], part: number): number {
  const sorted = samples.toSorted((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.ceil(part * sorted.length) - 1)] ?? Number.NaN;
}

/** The figures in Markdown. */
export function edgeTable(timings: Timings): string {
  const rows = [...timings].map(([name, samples]) => {
    const figures = [0.5, 0.9, 0.99].map((part) => percentile(samples, part).toFixed(1));
    return `| ${name} | ${figures.join(" | ")} |`;
  });
  return ["| ms | p50 | p90 | p99 |", "|---|---|---|---|", ...rows].join("\n");
}

/** Where the answers come from: Cloudflare names its data centre at the end of a header. */
async function placeOf(url: string): Promise<string> {
  const reply = await fetch(`${url}/health`);
  const [, place] = /-([A-Z]{3})$/.exec(reply.headers.get("cf-ray") ?? "") ?? [];
  return place === undefined ? "" : `, by way of data centre ${place}`;
}

async function main(args: readonly string[]): Promise<void> {
  if (args.includes("--help")) {
    console.log(USAGE);
    return;
  }
  const options = readEdgeOptions(args, process.env);
  const timings = await measureEdge(options, (what) => console.error(`bench: ${what}`));
  const day = new Date().toISOString().slice(0, 10);
  const { samples, url } = options;
  console.log(edgeTable(timings));
  console.log(
    `\n${day}, ${samples} samples each, one client${await placeOf(url)}. ${new URL(url).host}, npm run bench:edge.`,
  );
}

if (import.meta.main) {
  try {
    await main(process.argv.slice(2));
  } catch (error) {
    console.error(`bench: ${error instanceof Error ? error.message : error}`);
    if (error instanceof UsageError) console.error(USAGE);
    process.exitCode = error instanceof UsageError ? 2 : 1;
  }
}
