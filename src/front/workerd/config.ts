import { type Address, formatAddress } from "../../node/listeners/addresses.ts";

export interface WorkerdLayout {
  /** Path of the bundled Worker. */
  readonly worker: string;
  /** Directory of the objects' databases. */
  readonly storage: string;
  /** Where workerd accepts HTTP and WebSockets. */
  readonly http: Listen;
  /** Raw TCP without a front door, for benchmarks. */
  readonly tcp?: Address | undefined;
  /** The Worker may connect to addresses of private networks too: that is where its peers may be. */
  readonly reachesPeers?: boolean;
  /** Names of the variables; the values travel in workerd's environment (see `environmentName`). */
  readonly variables: readonly string[];
}

/** Where workerd listens: a Unix socket or a port of this machine. */
export type Listen = { readonly path: string } | Address;

/** Tells workerd the scheme of the client's request, so that URLs in replies use it. */
export const SCHEME_HEADER = "X-Forwarded-Proto";

/** The namespaces' unique keys name the objects' files on disk: changing one loses the data. */
export const NAMESPACES = {
  KEY: "KeyObject",
  SESSION: "SessionObject",
  HTTP_SESSION: "HttpSessionObject",
  DIRECTORY: "DirectoryObject",
  METRICS: "MetricsObject",
  RATE_LIMIT: "RateLimitObject",
  STORAGE_PROBE: "StorageProbeObject",
  RELAY: "RelayObject",
} as const;

/** A network service of its own: the default one reaches public addresses only (workerd 2026-11). */
const PEERS = `
    (name = "peers", network = (allow = ["public", "private", "local"], tlsOptions = (trustBrowserCas = true))),`;

export const environmentName = (variable: string) => `HOLDFAST_VAR_${variable}`;

/** The text of a workerd configuration. It contains no secrets: variables are passed by environment. */
export function workerdConfig(layout: WorkerdLayout): string {
  const namespaces = Object.entries(NAMESPACES);
  const bindings = [
    ...namespaces.map(([name, className]) => `(name = ${text(name)}, durableObjectNamespace = ${text(className)})`),
    ...layout.variables.map((name) => `(name = ${text(name)}, fromEnvironment = ${text(environmentName(name))})`),
  ];
  const classes = namespaces.map(
    ([, className]) =>
      `(className = ${text(className)}, uniqueKey = ${text(`holdfast-${className}`)}, enableSql = true)`,
  );
  const sockets = [
    `(name = "http", address = ${text(addressOf(layout.http))}, http = (forwardedProtoHeader = ${text(SCHEME_HEADER)}), service = "main")`,
    ...(layout.tcp ? [`(name = "tcp", address = ${text(formatAddress(layout.tcp))}, tcp = (), service = "main")`] : []),
  ];
  return `using Workerd = import "/workerd/workerd.capnp";
const config :Workerd.Config = (
  services = [
    (name = "main", worker = .holdfast),
    (name = "disk", disk = (path = ${text(layout.storage)}, writable = true)),${layout.reachesPeers ? PEERS : ""}
  ],
  sockets = [
    ${sockets.join(",\n    ")},
  ],
);
const holdfast :Workerd.Worker = (
  modules = [(name = "worker.js", esModule = embed ${text(layout.worker)})],
  compatibilityDate = "2026-11-04",
  compatibilityFlags = ["enable_request_signal"],
  bindings = [
    ${bindings.join(",\n    ")},
  ],
  durableObjectNamespaces = [
    ${classes.join(",\n    ")},
  ],
  durableObjectStorage = (localDisk = "disk"),${layout.reachesPeers ? '\n  globalOutbound = "peers",' : ""}
);
`;
}

function addressOf(listen: Listen): string {
  return "path" in listen ? `unix:${listen.path}` : formatAddress(listen);
}

/** A Cap'n Proto string literal. */
function text(value: string): string {
  return `"${value.replace(/[\\"]/g, "\\$&").replaceAll("\n", "\\n")}"`;
}
