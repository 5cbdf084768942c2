/** The service in one Node process: all keys and sessions in memory, one database, one commit per batch of commands. */
import { readConfig } from "../core/config/config.ts";
import { app } from "../http/app.ts";
import { createLog } from "../log.ts";
import { reportFor } from "../reports/report-queue.ts";
import type { Bindings, Service } from "../service.ts";
import { joinGroup } from "./group/group.ts";
import { NodeHost } from "./host.ts";
import type { Address } from "./listeners/addresses.ts";
import { dial } from "./listeners/dial.ts";
import { Failure, reasonOf } from "./listeners/failure.ts";
import { Listeners, type PortOptions } from "./listeners/index.ts";
import { budgetFor, type FileBudget, openFileLimit } from "./listeners/open-files.ts";
import { rateLimitedLog } from "./listeners/rate-limited-log.ts";
import { serviceOf } from "./service.ts";
import { openDataDir } from "./store/data-dir.ts";
import { systemRuntime } from "./system/runtime.ts";

export interface ServeOptions {
  /** Where everything is kept; `:memory:` keeps nothing. */
  readonly dataDir: string;
  /** Port 0 picks a free port. */
  readonly tcp: Address;
  readonly http: Address;
  readonly godistlock?: PortOptions | undefined;
  /** Port for relays of other deployments, if there is one. */
  readonly relay?: PortOptions | undefined;
  readonly tls?: { readonly cert: Buffer; readonly key: Buffer } | undefined;
  /** Connections of one address to the HTTP port, without WebSockets; 0 means no limit. */
  readonly httpMaxConnectionsPerIp?: number | undefined;
  /** Settings by name, such as `MAX_WAITERS`. */
  readonly variables?: Readonly<Record<string, string>>;
  /** Receives log lines; the default is standard error. */
  readonly log?: (text: string) => void;
}

export interface RunningService {
  readonly tcpPort: number;
  readonly httpPort: number;
  /** 0 if there is none. */
  readonly godistlockPort: number;
  /** 0 if there is none. */
  readonly relayPort: number;
  readonly budget: FileBudget;
  /** Resolves if the service cannot go on. */
  readonly failed: Promise<Failure>;
  /** Stops in order: what has arrived is answered, then every connection is closed. */
  stop(): Promise<void>;
  /** Ends everything at once. Safe: everything a client was told is on disk. */
  kill(): Promise<void>;
}

/** Starts the service. Rejects with a one-line `Failure`, leaving nothing running. */
export async function serve(options: ServeOptions): Promise<RunningService> {
  const write = options.log ?? ((text: string) => process.stderr.write(text));
  // Without a proxy in front, the address of a client is that of its connection.
  const read = readConfig({ CLIENT_IP_HEADER: "", ...options.variables });
  if (!read.ok) throw new Failure(`${read.bad[0].name} ${read.bad[0].rule}`, 2);
  const { config } = read;
  const store = openDataDir(options.dataDir);
  const failure = Promise.withResolvers<Failure>();
  const runtime = systemRuntime();
  const host = new NodeHost({
    config,
    store,
    runtime,
    log: createLog((_, line) => write(`${line}\n`)),
    failed: (error) => failure.resolve(new Failure(`the data can no longer be read: ${reasonOf(error)}`)),
  });
  const group = joinGroup(host, dial);
  let isEnded = false;
  const end = () => {
    if (isEnded) return;
    isEnded = true;
    group?.stop();
    host.stop();
    store.close();
  };
  try {
    loadFrom(options.dataDir, host);
    const budget = budgetFor(openFileLimit());
    const listeners = new Listeners({
      clients: host.sessions,
      peers: group,
      ports: { dflockd: options.tcp, http: options.http, godistlock: options.godistlock, relay: options.relay },
      fetch: (request, address) => app.fetch(request, { service, address } satisfies Bindings),
      tls: options.tls,
      caps: {
        sockets: budget.connections,
        clients: config.maxConnections,
        clientsPerAddress: config.maxConnectionsPerIp,
        httpPerAddress: options.httpMaxConnectionsPerIp ?? httpShare(budget, config.clientIpHeader),
      },
      writeTimeoutMs: config.writeTimeoutMs,
      readTimeoutMs: config.readTimeoutMs,
      log: rateLimitedLog((line) => write(`holdfast: ${line}\n`)),
    });
    const service: Service = serviceOf(host, { sockets: listeners.sockets, group });
    host.reports = (ask, asker) => reportFor(service, ask, asker);
    await listeners.open();
    const { ports } = listeners;
    return {
      tcpPort: ports.dflockd ?? 0,
      httpPort: ports.http ?? 0,
      godistlockPort: ports.godistlock ?? 0,
      relayPort: ports.relay ?? 0,
      budget,
      failed: failure.promise,
      async stop() {
        listeners.stopListening();
        host.finish();
        host.stop();
        // Answers over HTTP are written by the app, which goes on from here.
        for (let turn = 0; turn < LAST_TURNS; turn += 1) await new Promise<void>((resolve) => setImmediate(resolve));
        listeners.cut();
        end();
      },
      async kill() {
        listeners.stopListening();
        listeners.cut();
        end();
      },
    };
  } catch (error) {
    end();
    throw error;
  }
}

/** Throws a one-line `Failure` if what is stored cannot be read. */
function loadFrom(dataDir: string, host: NodeHost): void {
  try {
    host.load();
  } catch (error) {
    throw new Failure(`the data in ${dataDir} is damaged: ${reasonOf(error)}`);
  }
}

/** Turns of the event loop that an answer may take from its commit to its connection. */
const LAST_TURNS = 3;

/** The default share of all connections that one address may have. */
const HTTP_SHARE = 0.75;

/** Keeps one address from taking all connections. A proxy that sends its clients' addresses is exempt. */
function httpShare({ connections }: FileBudget, clientIpHeader: string): number {
  return clientIpHeader === "" ? Math.ceil(connections * HTTP_SHARE) : 0;
}
