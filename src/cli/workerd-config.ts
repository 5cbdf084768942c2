import { type Address, formatAddress } from "./addresses.ts";

export interface WorkerdLayout {
  /** Path of the bundled Worker. */
  readonly worker: string;
  /** Directory of the objects' databases. */
  readonly storage: string;
  readonly tcp: Address;
  readonly http: Address;
  /** Names of the variables; the values travel in workerd's environment (see `environmentName`). */
  readonly variables: readonly string[];
  readonly tls: { readonly certPath: string; readonly keyPath: string } | undefined;
}

/** The namespaces' unique keys name the objects' files on disk: changing one loses the data. */
export const NAMESPACES = {
  KEY: "KeyObject",
  SESSION: "SessionObject",
  HTTP_SESSION: "HttpSessionObject",
  DIRECTORY: "DirectoryObject",
  METRICS: "MetricsObject",
  RATE_LIMIT: "RateLimitObject",
} as const;

export const environmentName = (variable: string) => `HOLDFAST_VAR_${variable}`;

/** The text of a workerd configuration. It holds no secret: variables come by environment, the TLS key by file. */
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
  return `using Workerd = import "/workerd/workerd.capnp";
const config :Workerd.Config = (
  services = [
    (name = "main", worker = .holdfast),
    (name = "disk", disk = (path = ${text(layout.storage)}, writable = true)),
  ],
  sockets = [
    (name = "dflockd", address = ${text(formatAddress(layout.tcp))}, ${tcpProtocol(layout.tls)}, service = "main"),
    (name = "http", address = ${text(formatAddress(layout.http))}, ${httpProtocol(layout.tls)}, service = "main"),
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
  durableObjectStorage = (localDisk = "disk"),
);
`;
}

function httpProtocol(tls: WorkerdLayout["tls"]): string {
  return tls ? `https = (options = (), tlsOptions = ${tlsOptions(tls)})` : "http = ()";
}

function tcpProtocol(tls: WorkerdLayout["tls"]): string {
  return tls ? `tcp = (tlsOptions = ${tlsOptions(tls)})` : "tcp = ()";
}

function tlsOptions({ certPath, keyPath }: { certPath: string; keyPath: string }): string {
  return `(keypair = (privateKey = embed ${text(keyPath)}, certificateChain = embed ${text(certPath)}))`;
}

/** A Cap'n Proto string literal. */
function text(value: string): string {
  return `"${value.replace(/[\\"]/g, "\\$&").replaceAll("\n", "\\n")}"`;
}
