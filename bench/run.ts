/** `npm run bench`: holdfast beside other lock servers, what it takes, and whether its goals are met. See docs/benchmarks.md. */
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { measureCapacity } from "./capacity.ts";
import { type Field, startField } from "./contenders.ts";
import { measureCycles, WORKLOADS } from "./cycles.ts";
import type { Findings } from "./findings.ts";
import { goalLines, goalsOf } from "./goals.ts";
import { describeMachine, loadNow } from "./machine.ts";
import { type Options, type Part, readOptions, USAGE, UsageError } from "./options.ts";
import { benchmarksPage, chartsOf, figureLines, readmeFigures, withFigures } from "./page/text.ts";
import { measureQuorum, quorumLines } from "./quorum.ts";
import { Lab } from "./servers.ts";
import { measureSticky, stickyLines } from "./sticky.ts";

const ROOT = fileURLToPath(new URL("..", import.meta.url));
const say = (line: string) => console.error(`bench: ${line}`);

async function main(options: Options): Promise<void> {
  const findings = options.from ? (JSON.parse(readFileSync(options.from, "utf8")) as Findings) : await measure(options);
  if (findings.workloads.length > 0) console.log(`${figureLines(findings).join("\n")}\n`);
  if (findings.workloads.length > 0 || findings.capacity) console.log(goalLines(goalsOf(findings)).join("\n"));
  if (options.json) writeFileSync(options.json, `${JSON.stringify(findings, null, 2)}\n`);
  if (options.report) write(findings);
}

async function measure(options: Options): Promise<Findings> {
  await using lab = new Lab();
  for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) {
    process.once(signal, () => void lab[Symbol.asyncDispose]().then(() => process.exit(130)));
  }
  const has = (part: Part) => options.only.includes(part);
  const machine = describeMachine(lab.folder);
  const before = loadNow();
  const capacity = has("capacity") ? await measureCapacity(lab, say) : undefined;
  const nobody: Field = { contenders: [], servers: [] };
  const field = has("cycles") ? await startField(lab, machine.holdfast, options.goals) : nobody;
  const workloads = has("cycles") ? await measureCycles(field.contenders, WORKLOADS, options, say) : [];
  if (has("sticky")) console.log(stickyLines(await measureSticky(lab, options)).join("\n"));
  if (has("quorum")) console.log(quorumLines(await measureQuorum(lab, options)).join("\n"));
  const { seconds, rounds } = options;
  const day = new Date().toISOString().slice(0, 10);
  const { servers } = field;
  return { day, seconds, rounds, machine, load: [before, loadNow()], servers, workloads, capacity };
}

function write(findings: Findings): void {
  const docs = join(ROOT, "docs");
  writeFileSync(join(docs, "benchmarks.md"), benchmarksPage(findings));
  for (const { file, svg } of chartsOf(findings)) {
    mkdirSync(dirname(join(docs, file)), { recursive: true });
    writeFileSync(join(docs, file), svg);
  }
  const readme = join(ROOT, "README.md");
  writeFileSync(readme, withFigures(readFileSync(readme, "utf8"), readmeFigures(findings)));
  say("written: docs/benchmarks.md, its charts, and the figures of the README");
}

try {
  const options = readOptions(process.argv.slice(2));
  if (options) await main(options);
  else console.log(USAGE);
} catch (error) {
  console.error(`bench: ${(error as Error).message}`);
  if (error instanceof UsageError) console.error(USAGE);
  process.exitCode = error instanceof UsageError ? 2 : 1;
}
