/** `npm run bench -- --report`: measures holdfast beside what else is installed, and writes the page about it. */
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import type { Options } from "../options.ts";
import { PEERS } from "../peers/peers.ts";
import type { Lab } from "../servers.ts";
import { describeMachine, loadNow } from "./machine.ts";
import { benchmarksPage, chartsOf, type Findings, OURS, type PeerNote, readmeFigures, withFigures } from "./text.ts";
import { type Contender, measureWorkload, WORKLOADS, type WorkloadResult } from "./workloads.ts";

const DOCS = fileURLToPath(new URL("../../docs", import.meta.url));
const README = fileURLToPath(new URL("../../README.md", import.meta.url));

export async function report(lab: Lab, options: Options, isStopped: () => boolean): Promise<void> {
  const machine = describeMachine(lab.folder);
  const before = loadNow();
  const holdfast = await lab.startService();
  const ours = { server: holdfast, isDurable: true };
  const contenders: Contender[] = [{ ...ours, label: OURS, transport: "tcp", isAside: false }];
  const peers: PeerNote[] = [];
  for (const peer of PEERS) {
    const running = await lab.startPeer(peer);
    peers.push({ ...peer, version: running?.version });
    console.log(`${peer.name}: ${running?.version ?? "not installed"}`);
    const { name: label, isDurable } = peer;
    if (running) contenders.push({ label, server: running, transport: "tcp", isDurable, isAside: false });
  }
  contenders.push({ ...ours, label: `${OURS}, WebSocket`, transport: "ws", isAside: true });
  contenders.push({ ...ours, label: `${OURS}, REST`, transport: "rest", isAside: true });
  const workloads: WorkloadResult[] = [];
  for (const workload of WORKLOADS) {
    const result = await measureWorkload(workload, contenders, options, isStopped);
    if (isStopped()) return;
    workloads.push(result);
    const rates = result.measured.map(
      ({ label, result: { cyclesPerSecond } }) => `${label} ${cyclesPerSecond.toFixed(0)}`,
    );
    console.log(`${workload.title}, cycles/s: ${rates.join("; ")}`);
  }
  const { seconds, rounds } = options;
  const day = new Date().toISOString().slice(0, 10);
  write({ day, seconds, rounds, machine, load: [before, loadNow()], peers, workloads }, options.json);
}

function write(findings: Findings, json: string | undefined): void {
  const page = join(DOCS, "benchmarks.md");
  writeFileSync(page, benchmarksPage(findings));
  for (const { file, svg } of chartsOf(findings)) {
    const path = join(DOCS, file);
    mkdirSync(dirname(path), { recursive: true });
    writeFileSync(path, svg);
  }
  writeFileSync(README, withFigures(readFileSync(README, "utf8"), readmeFigures(findings)));
  if (json) writeFileSync(json, `${JSON.stringify(findings, null, 2)}\n`);
  console.log(`written: ${page}, its charts, and the figures of the README`);
}
