/**
 * `npm run soak:keys -- --minutes 10`: fresh keys, as many as this machine's workerd can make: each is taken once, released,
 * and never used again. A key deletes itself after an hour's rest; here after `--rest` seconds, so that as many are unlisted
 * and deleted as are made. It fails if a backlog or the memory grows, or if anything is left in the end.
 */
import { readdirSync, readFileSync, rmSync } from "node:fs";
import { basename } from "node:path";
import { setTimeout as wait } from "node:timers/promises";
import { parseArgs } from "node:util";
import type { Plugin } from "esbuild";
import { WebSocket } from "ws";
import { storageFolder } from "../support/storage.ts";
import { serviceWorker } from "../support/worker.ts";
import { startWorkerd } from "../support/workerd.ts";
import { isGrowing, type Sample } from "./backlogs.ts";

const { values } = parseArgs({
  options: {
    minutes: { type: "string", default: "10" },
    connections: { type: "string", default: "8" },
    rest: { type: "string", default: "20" },
    /** More files than this the process does not open: every awake object has a few. */
    files: { type: "string" },
  },
});

const MINUTE_MS = 60_000;
const REST_MS = Number(values.rest) * 1_000;
/** When a key that was used once deletes itself, as `key-commands.ts` has it. */
const LIFE_MS = REST_MS * 1.1;
const SAMPLE_EVERY_MS = 5_000;
/** A key that does nothing for so long is idle: it does not keep its rows for longer than the rest. */
const IDLE_S = "1";
/** For what is left after the last key: retries, and alarms that are late. */
const EMPTY_WITHIN_MS = 3 * MINUTE_MS;
const MEGABYTE = 2 ** 20;
/** workerd ends when it runs out of files. */
const SHARE_OF_FILES = 0.7;

/** The sources with another rest. The build fails if it is not found. */
const shortRest: Plugin = {
  name: "short-rest",
  setup: ({ onLoad, onEnd }) => {
    const rest = "const KEPT_MS = 3_600_000;";
    let isFound = false;
    onLoad({ filter: /key-commands\.ts$/ }, ({ path }) => {
      const source = readFileSync(path, "utf8");
      isFound ||= source.includes(rest);
      return { contents: source.replace(rest, `const KEPT_MS = ${REST_MS};`), loader: "ts" };
    });
    onEnd(() => {
      if (!isFound) throw new Error(`no ${rest} in the sources`);
    });
  },
};

const folder = storageFolder();
const said = new Set<string>();
const workerd = await startWorkerd({
  worker: await serviceWorker(folder, [shortRest]),
  storage: folder,
  variables: { GC_MAX_IDLE_S: IDLE_S },
  tcp: {},
  log: (text) => {
    for (const line of text.split("\n")) if (line !== "") said.add(line);
  },
});
const address = `127.0.0.1:${workerd.ports.http}`;

const filesOpen = () => readdirSync(`/proc/${workerd.pid}/fd`).length;
const maxFiles = Number(
  values.files ?? /^Max open files\s+(\d+)/m.exec(readFileSync(`/proc/${workerd.pid}/limits`, "utf8"))?.[1],
);
const memoryMb = () => {
  const kilobytes = /^VmRSS:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${workerd.pid}/status`, "utf8"))?.[1];
  return (Number(kilobytes) * 1_024) / MEGABYTE;
};

/** When keys were made: `made[n]` keys until second n of the run. */
const made: number[] = [];
let total = 0;
let isOver = false;
let isFull = false;

/** Takes and releases one fresh key after the other. */
async function makeKeys(connection: number): Promise<void> {
  const socket = new WebSocket(`ws://${address}/v1/ws`);
  let heard: (line: string) => void = () => {};
  socket.on("message", (data) => heard(String(data)));
  await new Promise<void>((resolve, reject) => {
    socket.once("open", () => resolve());
    socket.once("error", reject);
  });
  const closed = new Promise<never>((_, reject) => socket.once("close", () => reject(new Error("the socket closed"))));
  closed.catch(() => {});
  const ask = (text: string) => {
    const line = new Promise<string>((resolve) => {
      heard = resolve;
    });
    socket.send(text);
    return Promise.race([line, closed]);
  };
  for (let key = 0; !isOver; key += 1) {
    while (isFull && !isOver) await wait(50);
    const name = `fresh-${connection}-${key}`;
    const granted = await ask(`l\n${name}\n10\n`);
    const token = /^ok ([0-9a-f]{32}) /.exec(granted)?.[1];
    if (!token) throw new Error(`${name} is not granted: ${granted}`);
    const released = await ask(`r\n${name}\n${token}\n`);
    if (!released.startsWith("ok")) throw new Error(`${name} is not released: ${released}`);
    total += 1;
  }
  socket.close();
}

async function figures(): Promise<{ readonly listed: number; readonly deleted: number }> {
  const reply = await fetch(`http://${address}/metrics?exact=true`);
  const text = await reply.text();
  if (reply.status !== 200) throw new Error(`/metrics answers ${reply.status}: ${text}`);
  const figure = (name: string) => Number(new RegExp(`^dflockd_${name} (\\S+)$`, "m").exec(text)?.[1]);
  return { listed: figure("keys"), deleted: figure("keys_pruned_total") };
}

const startedAt = Date.now();
const second = () => Math.floor((Date.now() - startedAt) / 1_000);
const madeUntil = (at: number) => (at < 0 ? 0 : (made[Math.min(at, made.length - 1)] ?? 0));
const ticking = setInterval(() => {
  made[second()] = total;
  for (let at = made.length - 2; at >= 0 && made[at] === undefined; at -= 1) made[at] = made[at + 1] ?? 0;
  isFull = filesOpen() > SHARE_OF_FILES * maxFiles;
}, 200);

async function sample(): Promise<Sample> {
  const now = second();
  // Read first: what is made meanwhile is no backlog.
  const [before, due] = [madeUntil(now - 1), madeUntil(now - Math.ceil(LIFE_MS / 1_000))];
  const { listed } = await figures();
  // Afterwards: a key that has been unlisted meanwhile is among the deleted ones then, or about to be.
  const { deleted } = await figures();
  return {
    made: total,
    listed,
    deleted,
    unlisted: Math.max(0, before - deleted - listed),
    overdue: Math.max(0, due - deleted),
    memoryMb: Math.round(memoryMb()),
    files: filesOpen(),
  };
}

const samples: Sample[] = [];
const problems: string[] = [];
const told = (each: Sample) => console.log(`${second()} s: ${JSON.stringify(each)}`);
try {
  const working = Promise.all(Array.from({ length: Number(values.connections) }, (_, n) => makeKeys(n)));
  const failed = working.then(
    () => undefined,
    (error: unknown) => error,
  );
  const endsAt = startedAt + Number(values.minutes) * MINUTE_MS;
  let problem: unknown;
  while (Date.now() < endsAt && !problem) {
    problem = await Promise.race([failed, wait(SAMPLE_EVERY_MS)]);
    if (problem) break;
    const taken = await sample();
    samples.push(taken);
    told(taken);
  }
  isOver = true;
  problem ??= await failed;
  if (problem) problems.push(String(problem));
  // The first keys delete themselves only after their rest.
  const steady = samples.slice(Math.ceil((LIFE_MS * 1.5) / SAMPLE_EVERY_MS));
  const rate = total / ((Date.now() - startedAt) / 1_000);
  for (const [what, slack] of [
    ["unlisted", 5 * rate],
    ["overdue", 10 * rate],
    ["memoryMb", 200],
  ] as const)
    if (
      isGrowing(
        steady.map((each) => each[what]),
        slack,
      )
    )
      problems.push(`${what} grows`);
  console.log(`${total} keys, ${rate.toFixed(0)} per second; now nothing is made any more`);
  const emptyBy = Date.now() + LIFE_MS + EMPTY_WITHIN_MS;
  let last = await sample();
  while (last.listed + total - last.deleted > 0 && Date.now() < emptyBy) {
    await wait(SAMPLE_EVERY_MS);
    last = await sample();
    told(last);
  }
  if (last.listed > 0) problems.push(`${last.listed} keys are still listed`);
  if (last.deleted < total) problems.push(`${total - last.deleted} keys are not deleted`);
  for (const line of said) problems.push(`the server says: ${line}`);
} finally {
  isOver = true;
  clearInterval(ticking);
  await workerd.kill();
  rmSync(folder, { recursive: true, force: true });
}
for (const problem of problems.slice(0, 20)) console.error(problem);
console.log(`${basename(import.meta.filename)}: ${problems.length === 0 ? "no backlog grew" : "WRONG"}`);
process.exit(problems.length === 0 ? 0 : 1);
