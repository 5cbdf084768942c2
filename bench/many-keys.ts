/** How long reports take with a hundred keys listed and with a hundred thousand. See docs/benchmarks-history.md. */
import { mkdtempSync, readdirSync, rmSync } from "node:fs";
import { loadavg, tmpdir } from "node:os";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { inWords, isNoisy, ratioOf } from "./ratio.ts";
import { startServed } from "./served.ts";

const { values } = parseArgs({
  options: {
    rounds: { type: "string", default: "20" },
    few: { type: "string", default: "100" },
    many: { type: "string", default: "100000" },
    command: { type: "string", default: fileURLToPath(new URL("../dist/holdfast.js", import.meta.url)) },
  },
});

const REPORTS = {
  "/metrics": "/metrics",
  "/metrics, no estimates": "/metrics?exact=true",
  "/v1/stats": "/v1/stats",
  "a page of the console": "/v1/stats?limit=50&detail=true",
} as const;
type Report = keyof typeof REPORTS;

/** A server that lists so many keys, all of which sleep. */
async function startWith(keys: number) {
  const folder = mkdtempSync(join(tmpdir(), "holdfast-bench-"));
  const stop = async (server: AsyncDisposable) => server[Symbol.asyncDispose]();
  const founding = await startServed(values.command, folder);
  // All shards of the directory now have a file.
  await fetch(`${founding.url}/metrics`).then((reply) => reply.text());
  await stop(founding);
  listKeys(join(folder, "data", "objects", "holdfast-DirectoryObject"), keys);
  const server = await startServed(values.command, folder);
  const took = Object.fromEntries(Object.keys(REPORTS).map((name) => [name, []])) as unknown as Record<
    Report,
    number[]
  >;
  return {
    keys,
    took,
    async ask(report: Report): Promise<void> {
      const started = performance.now();
      const reply = await fetch(server.url + REPORTS[report]);
      await reply.text();
      if (reply.status !== 200) throw new Error(`${report}: ${reply.status}`);
      took[report].push(performance.now() - started);
    },
    async [Symbol.asyncDispose]() {
      await stop(server);
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

/** Lists keys by writing to the directory's files: founding so many would take the better part of an hour. */
function listKeys(directory: string, count: number): void {
  const files = readdirSync(directory).filter((name) => /^[0-9a-f]{64}\.sqlite$/.test(name));
  for (const [shard, file] of files.entries()) {
    using database = new DatabaseSync(join(directory, file));
    database.exec("BEGIN");
    const insert = database.prepare("INSERT INTO keys VALUES (?, 0)");
    for (let index = shard; index < count; index += files.length) insert.run(`key-${String(index).padStart(7, "0")}`);
    database.exec("COMMIT");
  }
}

const median = (numbers: readonly number[]) => numbers.toSorted((a, b) => a - b)[numbers.length >> 1] ?? Number.NaN;
const inMs = (numbers: readonly number[]) => `${median(numbers).toFixed(0)} ms`.padStart(9);

await using few = await startWith(Number(values.few));
await using many = await startWith(Number(values.many));
const reports = Object.keys(REPORTS) as Report[];
for (let round = 0; round < Number(values.rounds); round += 1) {
  for (const report of reports) {
    for (const server of round % 2 === 0 ? [few, many] : [many, few]) await server.ask(report);
  }
}
console.log(`${values.rounds} rounds, load ${loadavg()[0]?.toFixed(1)}; medians, and many keys over few`);
console.log(`${"".padEnd(24)}${few.keys} keys  ${many.keys} keys  worst  ratio (quartiles)`);
for (const report of reports) {
  const ratio = ratioOf(many.took[report], few.took[report]);
  const worst = `${Math.max(...many.took[report]).toFixed(0)} ms`.padStart(8);
  const noise = isNoisy(ratio) ? "  noisy" : "";
  console.log(
    `${report.padEnd(24)}${inMs(few.took[report])} ${inMs(many.took[report])} ${worst}  ${inWords(ratio)}${noise}`,
  );
}
