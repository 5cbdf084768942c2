/** A group of servers on this machine that agree on locks by majority. Stop it with Ctrl-C. */
import { type ChildProcess, spawn } from "node:child_process";
import { randomBytes } from "node:crypto";
import { createServer } from "node:net";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { type ClusterOptions, readClusterOptions, UsageError } from "./cluster-options.ts";

const PROGRAM = fileURLToPath(new URL("../dist/holdfast.js", import.meta.url));
/** A server that was killed stays away for this part of the time until the next is. */
const AWAY = 0.5;

interface Member {
  readonly id: string;
  readonly flags: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  readonly godistlock: number;
  readonly http: number;
  process: ChildProcess | undefined;
}

async function main(options: ClusterOptions): Promise<void> {
  const members = await membersOf(options);
  let isStopping = false;
  const stop = () => {
    isStopping = true;
    for (const { process: server } of members) server?.kill("SIGTERM");
  };
  for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) process.once(signal, stop);
  /** A server that is stopped while it starts is no failure. */
  const startUnlessStopping = (member: Member) =>
    start(member).catch((error: unknown) => {
      if (!isStopping) throw error;
    });
  await Promise.all(members.map(startUnlessStopping));
  if (isStopping) return;
  console.log(instructions(members));
  let turn = 0;
  while (!isStopping && options.killEverySeconds !== undefined) {
    await pause(options.killEverySeconds * 1000 * (1 - AWAY), () => isStopping);
    const victim = members[turn++ % members.length];
    if (!victim || isStopping) break;
    console.log(`cluster: ${victim.id} is killed`);
    victim.process?.kill("SIGKILL");
    await pause(options.killEverySeconds * 1000 * AWAY, () => isStopping);
    if (isStopping) break;
    await startUnlessStopping(victim);
    if (!isStopping) console.log(`cluster: ${victim.id} is back`);
  }
}

async function membersOf({ size, port, dataDir }: ClusterOptions): Promise<Member[]> {
  const ids = Array.from({ length: size }, (_, index) => `s${index}`);
  const first = (offset: number) => (port === undefined ? freePort() : Promise.resolve(port + offset));
  const ports = await Promise.all(
    ids.map(async (_, index) => ({
      dflockd: await first(10 * index),
      http: await first(10 * index + 1),
      godistlock: await first(10 * index + 2),
      relay: await first(10 * index + 3),
    })),
  );
  const peers = ids.map((id, index) => `${id}=tcp://127.0.0.1:${ports[index]?.relay}`).join(",");
  const token = randomBytes(24).toString("hex");
  return ids.map((id, index) => {
    const { dflockd = 0, http = 0, godistlock = 0, relay = 0 } = ports[index] ?? {};
    const listeners = { port: dflockd, "http-port": http, "godistlock-port": godistlock, "relay-port": relay };
    const own = { ...listeners, "data-dir": join(dataDir, id), "relay-id": id, "relay-peers": peers };
    const flags = Object.entries(own).flatMap(([name, value]) => [`--${name}`, String(value)]);
    // In the environment, where other users cannot see it.
    return { id, flags, env: { DFLOCKD_RELAY_TOKEN: token }, godistlock, http, process: undefined };
  });
}

/** Resolves when the server says that it is ready. */
async function start(member: Member): Promise<void> {
  const server = spawn(process.execPath, [PROGRAM, "serve", ...member.flags], {
    env: { ...process.env, ...member.env },
    stdio: ["ignore", "pipe", "inherit"],
  });
  member.process = server;
  await new Promise<void>((resolve, reject) => {
    server.stdout.once("data", () => resolve());
    server.once("exit", (code) => reject(new Error(`${member.id} ended with code ${code}`)));
  });
}

function instructions(members: readonly Member[]): string {
  const [first, second] = members;
  const majority = Math.floor(members.length / 2) + 1;
  return [
    `${members.length} servers, ${majority} of which must agree:`,
    ...members.map(({ id, godistlock, http }) => {
      return `  ${id}  godistlock 127.0.0.1:${godistlock}  console http://127.0.0.1:${http}/`;
    }),
    "",
    "Take a lock at one of them, and ask another for it:",
    `  nc 127.0.0.1 ${first?.godistlock}    then type: ON deploy 60000 a`,
    `  nc 127.0.0.1 ${second?.godistlock}    then type: TRY deploy 1000 b`,
    "",
    "Ctrl-C stops them all.",
  ].join("\n");
}

async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as { port: number };
  await new Promise((resolve) => server.close(resolve));
  return port;
}

async function pause(ms: number, isOver: () => boolean): Promise<void> {
  const ends = performance.now() + ms;
  while (performance.now() < ends && !isOver()) await new Promise((resolve) => setTimeout(resolve, 50));
}

try {
  await main(readClusterOptions(process.argv.slice(2)));
} catch (error) {
  console.error(`cluster: ${error instanceof Error ? error.message : error}`);
  process.exitCode = error instanceof UsageError ? 2 : 1;
}
