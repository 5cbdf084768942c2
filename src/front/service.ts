import { readConfig } from "../core/config/config.ts";
import type { Address } from "../node/listeners/addresses.ts";
import { type Failure, reasonOf } from "../node/listeners/failure.ts";
import { rateLimitedLog } from "../node/listeners/rate-limited-log.ts";
import { FrontDoor, newBridgeSecret } from "./door.ts";
import { PEER_HEADER } from "./http/headers.ts";
import { budgetFor, type FileBudget, openFileLimit } from "./limits/open-files.ts";
import { objectsDir, openDataDir } from "./workerd/data-dir.ts";
import { spreadOverdueAlarms } from "./workerd/overdue-alarms.ts";
import { startWorkerd } from "./workerd/process.ts";
import { Supervisor } from "./workerd/supervisor.ts";

export interface ServiceOptions {
  /** Path of the bundled Worker. */
  readonly worker: string;
  readonly dataDir: string;
  /** Port 0 picks a free port. */
  readonly tcp: Address;
  readonly http: Address;
  readonly godistlock?: Address | undefined;
  /** Port for relays of other deployments, if there is one. */
  readonly relay?: Address | undefined;
  readonly tls?: { readonly cert: Buffer; readonly key: Buffer } | undefined;
  /** Connections of one address to the HTTP port, without WebSockets; 0 means no limit. */
  readonly httpMaxConnectionsPerIp?: number | undefined;
  /** Passed to the Worker as they are, unchecked. */
  readonly variables: Readonly<Record<string, string>>;
  /** Receives the logs of the Worker and of the front door; the default is standard error. */
  readonly log?: (text: string) => void;
}

export interface RunningService {
  readonly tcpPort: number;
  readonly httpPort: number;
  /** 0 if there is none. */
  readonly godistlockPort: number;
  /** 0 if there is none. */
  readonly relayPort: number;
  /** The process id of the current or last workerd. */
  readonly workerdPid: number;
  readonly budget: FileBudget;
  /** Resolves if the service cannot continue. */
  readonly failed: Promise<Failure>;
  /** Stops in order: stops accepting, ends workerd, closes every connection. */
  stop(): Promise<void>;
  /** Ends everything immediately. Safe: everything a client was told is on disk. */
  kill(): Promise<void>;
}

/** Used if the Worker's variables are invalid: only its probes are served then. */
const WHEN_MISCONFIGURED = { writeTimeoutMs: 5_000, readTimeoutMs: 23_000, maxConnections: 0, maxConnectionsPerIp: 0 };

/** Starts the service on this machine. Rejects with a one-line `Failure`, leaving nothing running. */
export async function startService(options: ServiceOptions): Promise<RunningService> {
  const write = options.log ?? ((text: string) => process.stderr.write(text));
  const budget = budgetFor(openFileLimit());
  const variables: Readonly<Record<string, string>> = {
    SELF_HOSTED: "true",
    BRIDGE_SECRET: newBridgeSecret(),
    CLIENT_IP_HEADER: PEER_HEADER,
    MAX_AWAKE_KEYS: String(budget.awakeKeys),
    MAX_AWAKE_SESSIONS: String(budget.awakeSessions),
    ...options.variables,
  };
  const read = readConfig(variables);
  const config = read.ok ? read.config : WHEN_MISCONFIGURED;
  const dataDir = await openDataDir(options.dataDir);
  const { worker, dataDir: directory } = options;
  const { workerd: http, lock } = dataDir;
  const launch = async () => {
    await spreadOverdueAlarms(objectsDir(directory), budget).catch((error: unknown) =>
      write(`holdfast: overdue alarms stay as they are: ${reasonOf(error)}\n`),
    );
    return startWorkerd({ worker, dataDir: directory, http, variables, lock, log: write });
  };
  const supervisor = new Supervisor(launch, (line) => write(`holdfast: ${line}\n`));
  let door: FrontDoor | undefined;
  try {
    // Before workerd, so that a port in use is detected cheaply.
    door = await FrontDoor.open({
      tcp: options.tcp,
      http: options.http,
      godistlock: options.godistlock,
      relay: options.relay,
      tls: options.tls,
      caps: {
        sockets: budget.connections,
        clients: config.maxConnections,
        clientsPerAddress: config.maxConnectionsPerIp,
        httpPerAddress: options.httpMaxConnectionsPerIp ?? httpShare(budget, options.variables.CLIENT_IP_HEADER),
      },
      writeTimeoutMs: config.writeTimeoutMs,
      readTimeoutMs: config.readTimeoutMs,
      ownSecret: variables.BRIDGE_SECRET ?? "",
      bridgeSecret: options.variables.BRIDGE_SECRET,
      clientIpHeader: variables.CLIENT_IP_HEADER ?? PEER_HEADER,
      upstream: supervisor,
      log: rateLimitedLog((line) => write(`holdfast: ${line}\n`)),
    });
    await supervisor.start();
    return running(supervisor, door, budget, () => dataDir.close());
  } catch (error) {
    door?.stopListening();
    door?.cut();
    dataDir.close();
    throw error;
  }
}

/** The default share of all connections that one address may have. */
const HTTP_SHARE = 0.75;

/** Keeps one address from taking all connections. A proxy that sends its clients' addresses is exempt. */
function httpShare({ connections }: FileBudget, clientIpHeader: string | undefined): number {
  return clientIpHeader === undefined ? Math.ceil(connections * HTTP_SHARE) : 0;
}

function running(supervisor: Supervisor, door: FrontDoor, budget: FileBudget, close: () => void): RunningService {
  const end = async (endWorkerd: () => Promise<void>) => {
    door.stopListening();
    await endWorkerd();
    door.cut();
    close();
  };
  return {
    tcpPort: door.tcpPort,
    httpPort: door.httpPort,
    godistlockPort: door.godistlockPort,
    relayPort: door.relayPort,
    get workerdPid() {
      return supervisor.pid ?? 0;
    },
    budget,
    failed: supervisor.gaveUp,
    stop: () => end(() => supervisor.stop()),
    kill: () => end(() => supervisor.kill()),
  };
}
