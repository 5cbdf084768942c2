import { readConfig } from "../../../src/core/config/config.ts";
import type { Carrier, Connection } from "../../../src/node/clients.ts";
import { NodeHost } from "../../../src/node/host.ts";
import { serviceOf } from "../../../src/node/service.ts";
import { VOLATILE_STORE } from "../../../src/node/store/memory.ts";
import { SqliteStore, type StoreOptions } from "../../../src/node/store/sqlite.ts";
import type { Rows, Store } from "../../../src/node/store/store.ts";
import { reportFor } from "../../../src/reports/report-queue.ts";
import type { ClientEntry, Credential, Service } from "../../../src/service.ts";
import { VirtualRuntime } from "./virtual-runtime.ts";

/** A database whose commits fail while it is told to. */
export class FragileStore implements Store {
  readonly isVolatile = false;
  readonly #store: SqliteStore;
  fails = false;
  failsToRead = false;
  isAlmostFull = false;
  commits = 0;
  attempts = 0;
  /** Runs while a commit is under way. */
  committing = () => {};

  constructor(options: StoreOptions = {}) {
    this.#store = SqliteStore.open(":memory:", options);
  }

  load() {
    return this.#store.load();
  }

  loadKey(id: number) {
    if (this.failsToRead) throw new Error("I/O error");
    return this.#store.loadKey(id);
  }

  loadSession(id: number) {
    return this.#store.loadSession(id);
  }

  commit(write: (rows: Rows) => void): void {
    this.attempts += 1;
    this.#store.commit((rows) => {
      write(rows);
      this.committing();
      if (this.fails) throw new Error("disk full");
    });
    this.commits += 1;
  }

  logBytes() {
    return this.#store.logBytes();
  }

  hasRoom(): boolean {
    return !this.isAlmostFull;
  }

  close(): void {
    this.#store.close();
  }
}

export const ARRIVAL: ClientEntry = {
  protocol: "dflockd",
  transport: "ws",
  address: "192.0.2.1",
  isAuthenticated: false,
  rights: { scope: undefined, isAdmin: false },
  label: undefined,
  hasWindow: false,
};

const encoder = new TextEncoder();

/** A client on a socket. `lines` is what it has been sent. */
export class Client implements Carrier {
  readonly lines: string[] = [];
  closedWith: number | undefined;
  isPaused = false;
  connection: Connection | undefined;

  send(lines: readonly string[]): void {
    this.lines.push(...lines.map((line) => line.trimEnd()));
  }

  acknowledge(): void {}

  close(code: number): void {
    this.closedWith = code;
  }

  pause(): void {
    this.isPaused = true;
  }

  resume(): void {
    this.isPaused = false;
  }

  /** Sends a request: three lines. */
  ask(command: string, key = "_", argument = "_"): void {
    this.connection?.received(encoder.encode(`${command}\n${key}\n${argument}\n`));
  }

  /** Sends lines as they are. */
  say(...lines: readonly string[]): void {
    this.connection?.received(encoder.encode(lines.map((line) => `${line}\n`).join("")));
  }

  /** Sends requests in one piece. */
  askAll(requests: readonly (readonly [command: string, key: string, argument: string])[]): void {
    this.connection?.received(encoder.encode(requests.map((lines) => `${lines.join("\n")}\n`).join("")));
  }

  /** The last line. */
  get last(): string | undefined {
    return this.lines.at(-1);
  }

  /** The token of the last grant. */
  get token(): string {
    const grant = this.lines.findLast((line) => / [0-9a-f]{32} \d+$/.test(line)) ?? "";
    return /([0-9a-f]{32}) \d+$/.exec(grant)?.[1] ?? "";
  }

  hangUp(code = 1006): void {
    this.connection?.closed(code);
  }
}

/** What the client was told to resume its session with. */
export function credentialOf({ lines }: Client): Credential {
  const [, session = "", secret = ""] =
    lines.map((line) => /^ok ([0-9a-f]+)\.([0-9a-f]+) /.exec(line)).find(Boolean) ?? [];
  return { session, secret };
}

/** One Node host in virtual time, on a real database. */
export class World {
  readonly runtime = new VirtualRuntime();
  readonly store: FragileStore;
  readonly logged: string[] = [];
  readonly faults: unknown[] = [];
  readonly #variables: Readonly<Record<string, string>>;
  readonly #isVolatile: boolean;
  host: NodeHost;
  service: Service;

  constructor(
    variables: Readonly<Record<string, string>> = {},
    { isVolatile = false, ...options }: StoreOptions & { readonly isVolatile?: boolean } = {},
  ) {
    this.store = new FragileStore(options);
    this.#variables = variables;
    this.#isVolatile = isVolatile;
    this.host = this.#start();
    this.service = portOf(this.host);
  }

  /** The process dies and another one takes over. */
  crash(): void {
    this.runtime.die();
    this.host = this.#start();
    this.service = portOf(this.host);
    this.runtime.settle();
  }

  connect(arrival: Partial<ClientEntry> = {}): Client {
    const admission = this.host.sessions.admit({ ...ARRIVAL, ...arrival });
    if (typeof admission === "string") throw new Error(admission);
    const client = new Client();
    client.connection = admission.attach(client);
    return client;
  }

  async resume(credential: Credential): Promise<Client | string> {
    const resuming = this.host.sessions.resume(ARRIVAL, credential);
    this.runtime.settle();
    const admission = await resuming;
    if (typeof admission === "string") return admission;
    const client = new Client();
    client.connection = admission.attach(client);
    return client;
  }

  /** Lets a client resume its session; `attach` opens its connection. */
  async admitAgain(credential: Credential): Promise<{ attach(): Client }> {
    const admission = await this.host.sessions.resume(ARRIVAL, credential);
    if (typeof admission === "string") throw new Error(admission);
    return {
      attach: () => {
        const client = new Client();
        client.connection = admission.attach(client);
        return client;
      },
    };
  }

  #start(): NodeHost {
    const read = readConfig(this.#variables);
    if (!read.ok) throw new Error(`${read.bad[0].name} ${read.bad[0].rule}`);
    const host = new NodeHost({
      config: read.config,
      store: this.#isVolatile ? VOLATILE_STORE : this.store,
      runtime: this.runtime,
      log: (_, event) => this.logged.push(event),
      failed: (fault) => this.faults.push(fault),
    });
    host.reports = (ask, asker) => reportFor(this.service, ask, asker);
    host.load();
    return host;
  }
}

/** The service port without sockets and groups. */
function portOf(host: NodeHost): Service {
  const sockets = { upgrade: () => Promise.resolve({ status: "unavailable" } as const) };
  return serviceOf(host, { sockets, group: undefined });
}
