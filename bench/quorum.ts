/** What a majority costs: locks of a group of three servers beside those of a single one, on the same machine. */
import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { connect, type Socket } from "node:net";
import type { Latency, TurnOptions } from "./cycles.ts";
import { freePort, type Lab } from "./servers.ts";

const CLIENTS = [1, 10, 50];
const SIZE = 3;
const LEASE_MS = 60_000;

export interface QuorumResult extends Latency {
  readonly cyclesPerSecond: number;
}

export interface QuorumReport {
  readonly clients: number;
  readonly single: QuorumResult;
  readonly group: QuorumResult;
}

/** Clients take and release locks of their own, at a single server and at one of a group, in turns. */
export async function measureQuorum(lab: Lab, options: TurnOptions): Promise<QuorumReport[]> {
  const ports = await startServers(lab);
  const reports: QuorumReport[] = [];
  for (const clients of CLIENTS) {
    const single = await Crew.connect(ports.single, clients);
    const group = await Crew.connect(ports.group, clients);
    for (let round = 0; round < options.rounds; round++) {
      const ms = (options.seconds * 1000) / options.rounds;
      for (const crew of round % 2 === 0 ? [single, group] : [group, single]) await crew.work(ms);
    }
    single.close();
    group.close();
    reports.push({ clients, single: single.result, group: group.result });
  }
  return reports;
}

export function quorumLines(reports: readonly QuorumReport[]): string[] {
  const ms = (time: number) => time.toFixed(2).padStart(8);
  const cells = ({ cyclesPerSecond, p50, p99 }: QuorumResult) =>
    `${cyclesPerSecond.toFixed(0).padStart(9)}${ms(p50)}${ms(p99)}`;
  const head = `${"cycles/s".padStart(9)}${"p50".padStart(8)}${"p99".padStart(8)}`;
  return [
    `godistlock ON and OFF of free locks: a single server, and a majority of ${SIZE}; times from ON to GIVE, ms`,
    `${"clients".padEnd(8)}${"single".padStart(25)}${`majority of ${SIZE}`.padStart(25)}`,
    `${"".padEnd(8)}${head}${head}`,
    ...reports.map(({ clients, single, group }) => `${String(clients).padEnd(8)}${cells(single)}${cells(group)}`),
  ];
}

/** The godistlock ports of a single server and of one of a group. They run until the lab is closed. */
async function startServers(lab: Lab): Promise<{ readonly single: number; readonly group: number }> {
  const single = await freePort();
  await lab.startNode({ flags: ["--godistlock-port", `${single}`] });
  const ports: { readonly client: number; readonly relay: number }[] = [];
  for (let index = 0; index < SIZE; index++) ports.push({ client: await freePort(), relay: await freePort() });
  const peers = ports.map(({ relay }, index) => `s${index}=tcp://127.0.0.1:${relay}`).join(",");
  const env = { DFLOCKD_RELAY_TOKEN: randomBytes(24).toString("hex") };
  for (const [index, { client, relay }] of ports.entries()) {
    const own = ["--relay-id", `s${index}`, "--relay-peers", peers, "--relay-port", `${relay}`];
    await lab.startNode({ flags: [...own, "--godistlock-port", `${client}`], env });
  }
  return { single, group: ports[0]?.client ?? 0 };
}

/** Clients that stay connected from turn to turn. */
class Crew {
  readonly #clients: readonly Client[];
  readonly #times: number[] = [];
  #workedMs = 0;

  private constructor(clients: readonly Client[]) {
    this.#clients = clients;
  }

  static async connect(port: number, count: number): Promise<Crew> {
    const clients = Array.from({ length: count }, (_, index) => Client.connect(port, `bench-${count}-${index}`));
    const crew = new Crew(await Promise.all(clients));
    // Keys are founded and links opened before anything is measured.
    await Promise.all(crew.#clients.map((client) => client.cycle()));
    return crew;
  }

  async work(ms: number): Promise<void> {
    const begun = performance.now();
    const until = begun + ms;
    const cycle = async (client: Client) => {
      while (performance.now() < until) this.#times.push(await client.cycle());
    };
    await Promise.all(this.#clients.map(cycle));
    this.#workedMs += performance.now() - begun;
  }

  get result(): QuorumResult {
    const sorted = this.#times.toSorted((a, b) => a - b);
    const at = (part: number) => sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * part))] ?? Number.NaN;
    return { cyclesPerSecond: (1000 * sorted.length) / this.#workedMs, p50: at(0.5), p99: at(0.99) };
  }

  close(): void {
    for (const client of this.#clients) client.close();
  }
}

class Client {
  readonly #socket: Socket;
  readonly #lock: string;

  private constructor(socket: Socket, lock: string) {
    this.#socket = socket;
    this.#lock = lock;
  }

  static async connect(port: number, lock: string): Promise<Client> {
    const socket = connect(port, "127.0.0.1").setNoDelay(true);
    await once(socket, "connect");
    return new Client(socket, lock);
  }

  /** Takes the lock and gives it back; the time until it was given. */
  async cycle(): Promise<number> {
    const begun = performance.now();
    this.#socket.write(`ON ${this.#lock} ${LEASE_MS} n\n`);
    const [reply] = (await once(this.#socket, "data")) as [Buffer];
    const ms = performance.now() - begun;
    if (!reply.toString().startsWith("GIVE ")) throw new Error(`the server answered ${reply}`);
    this.#socket.write(`OFF ${this.#lock} n\n`);
    return ms;
  }

  close(): void {
    this.#socket.destroy();
  }
}
