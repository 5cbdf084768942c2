import {
  checkVariable,
  OF_CLOUDFLARE,
  readConfig,
  VARIABLES,
  type VariableName,
  WITHOUT_COUNTERPART,
} from "../core/config/config.ts";
import { HOST_RULE, PORT_RULE, parseHost, parsePort } from "../node/listeners/addresses.ts";
import { UsageFailure } from "../node/listeners/failure.ts";
import { type KeyPair, type NamedPath, readOptionalKeyPair, readSecretFile } from "./files.ts";

/** Settings that `serve` handles itself, instead of passing them to the service. */
type HandledByServe = SecretFile | "TLS_CERT" | "TLS_KEY" | "GODISTLOCK_PORT" | "RELAY_PORT";
type CloudflareVariable = (typeof OF_CLOUDFLARE)[number];
type ServedVariable = Exclude<VariableName, HandledByServe | CloudflareVariable>;

/** Files for secrets, as an alternative to the command line, where other users could see them. */
type SecretFile = "AUTH_TOKEN_FILE" | "ADMIN_TOKEN_FILE" | "TICKET_SECRET_FILE" | "RELAY_TOKEN_FILE";
const FILES: Partial<Record<ServedVariable, SecretFile>> = {
  AUTH_TOKEN: "AUTH_TOKEN_FILE",
  ADMIN_TOKEN: "ADMIN_TOKEN_FILE",
  TICKET_SECRET: "TICKET_SECRET_FILE",
  RELAY_TOKEN: "RELAY_TOKEN_FILE",
};

/** Variables passed to the service, with their help texts. Flag and environment names are derived from the names. */
const SERVED: Record<ServedVariable, string> = {
  AUTH_TOKEN: "clients must present this token (visible to other users in `ps`: prefer the file)",
  READ_TIMEOUT_S: "seconds a client may take for one request",
  WRITE_TIMEOUT_S: "seconds a client may leave replies unread, 0 = for ever",
  DEFAULT_LEASE_TTL_S: "lease in seconds when a client names none",
  LEASE_SWEEP_INTERVAL_S: "accepted for dflockd's sake, without effect: a lease ends when it ends",
  GC_INTERVAL_S: "seconds between looks for idle keys",
  GC_MAX_IDLE_S: "seconds for which an idle key is kept, at least",
  MAX_LOCKS: "most keys at a time, 0 = unlimited",
  MAX_WAITERS: "most waiters per key, 0 = unlimited",
  MAX_CONNECTIONS: "most connections, 0 = unlimited",
  MAX_CONNECTIONS_PER_IP: "most connections per client address, 0 = unlimited",
  AUTO_RELEASE_ON_DISCONNECT: "release what a client holds when it disconnects",
  DRAINING: "refuse new locks; holders may renew and release",
  FENCE_FLOOR: "no fence below this number",
  HTTP_SESSION_IDLE_S: "seconds after which an HTTP session should be pinged; it ends after twice that, 0 = never",
  HTTP_MAX_SESSIONS: "most HTTP sessions, 0 = unlimited",
  HTTP_MAX_SESSIONS_PER_IP: "most HTTP sessions per client address, 0 = unlimited",
  HTTP_RATE_LIMIT_PER_IP: "HTTP requests per second and client address, 0 = unlimited",
  HTTP_RATE_LIMIT_BURST: "HTTP requests at once before the rate counts, 0 = the rate",
  HTTP_CORS_ALLOWED_ORIGINS: "origins of web pages that may call the HTTP API, comma list or *",
  HTTP_ALLOWED_HOSTS:
    "names by which clients may address the HTTP listener, comma list or *; localhost and IP addresses always may (default: any with a token, none without)",
  CLIENT_IP_HEADER: "header in which a proxy before the service tells the client's address (default: the connection's)",
  DEBUG: "log more",
  RESUME_GRACE_S: "seconds in which a client that lost its WebSocket may take its session up again, 0 = none",
  BRIDGE_SECRET: "believe the client addresses told by bridges that know this secret",
  ADMIN_TOKEN: "who presents this token may administer as well (visible in `ps`: prefer the file)",
  TICKET_SECRET: "sign tickets with this secret, not with the token (visible in `ps`: prefer the file)",
  SERVER_ID: "how godistlock clients know this server (default: the relay's id, or holdfast)",
  RELAY_ID: "how the other deployments of a group know this one",
  RELAY_PEERS: "the deployments of a group, comma list of id=wss://host, id=ws://host or id=tcp://host:port",
  RELAY_TOKEN: "token shared by the deployments of a group (visible in `ps`: prefer the file)",
};

const OF_SERVE = {
  HOST: "address of the TCP listener",
  PORT: "port of the TCP listener, 0 = any free one",
  HTTP_HOST: "address of the HTTP and WebSocket listener (default: the TCP listener's)",
  HTTP_PORT: "port of the HTTP and WebSocket listener, 0 = any free one",
  GODISTLOCK_PORT: "port for godistlock clients, 0 = off",
  HTTP_MAX_CONNECTIONS_PER_IP:
    "most connections per client address to the HTTP listener, without WebSockets, 0 = unlimited (default: three quarters of what the open files allow)",
  DATA_DIR: "directory that holds all state; :memory: keeps none",
  AUTH_TOKEN_FILE: "file that holds the token",
  ADMIN_TOKEN_FILE: "file that holds the token of administrators",
  TICKET_SECRET_FILE: "file that holds the secret tickets are signed with, at least 32 bytes",
  RELAY_TOKEN_FILE: "file that holds the token shared by the deployments of a group, at least 16 bytes",
  RELAY_PORT: "port for relays of other deployments, opened if it or --relay-peers is set, 0 = off",
  TLS_CERT: "PEM certificate chain: all listeners speak TLS",
  TLS_KEY: "PEM private key of the certificate",
} as const;

const DEFAULTS = {
  HOST: "127.0.0.1",
  PORT: 6388,
  HTTP_PORT: 6389,
  GODISTLOCK_PORT: VARIABLES.GODISTLOCK_PORT.fallback,
  RELAY_PORT: VARIABLES.RELAY_PORT.fallback,
  DATA_DIR: ".holdfast",
} as const;

/** A list takes effect as soon as it has an entry, and every list allows loopback names. */
const LOOPBACK_NAMES_ONLY = "localhost";

type SettingName = ServedVariable | CloudflareVariable | keyof typeof OF_SERVE | (typeof WITHOUT_COUNTERPART)[number];

/** What a setting is called on the command line and in the environment. */
export interface SettingLabels {
  readonly flag: `--${string}`;
  readonly env: string;
}

/** One setting as flag and as environment variable. */
export interface Setting extends SettingLabels {
  readonly name: SettingName;
  /** Other names for the same setting. */
  readonly alias: SettingLabels | undefined;
  readonly help: string | undefined;
  readonly fallback: string | undefined;
  readonly isBoolean: boolean;
}

function fallbackOf(name: string): string | undefined {
  if (name in DEFAULTS) return String(DEFAULTS[name as keyof typeof DEFAULTS]);
  // The defaults for Cloudflare do not apply here.
  if (name === "CLIENT_IP_HEADER") return undefined;
  const rule = name in VARIABLES ? VARIABLES[name as VariableName] : undefined;
  if (rule && "fallback" in rule && rule.fallback !== "") return String(rule.fallback);
  return name === "FENCE_FLOOR" ? "0" : undefined;
}

/** dflockd's flag for this setting is longer than its variable; here both names work in both places. */
const SESSION_IDLE = {
  flag: "--http-session-idle-timeout",
  env: "DFLOCKD_HTTP_SESSION_IDLE_S",
  alias: { flag: "--http-session-idle", env: "DFLOCKD_HTTP_SESSION_IDLE_TIMEOUT_S" },
} as const;

function flagOf(name: string): `--${string}` {
  return `--${name.replace(/_S$/, "").toLowerCase().replaceAll("_", "-")}`;
}

function labelsOf(name: SettingName): Pick<Setting, "flag" | "env" | "alias"> {
  if (name === "HTTP_SESSION_IDLE_S") return SESSION_IDLE;
  return {
    flag: flagOf(name),
    env: name === "DATA_DIR" ? "HOLDFAST_DATA_DIR" : `DFLOCKD_${name}`,
    alias: undefined,
  };
}

function setting(name: SettingName, help?: string): Setting {
  return {
    name,
    ...labelsOf(name),
    help,
    fallback: fallbackOf(name),
    isBoolean: name in VARIABLES && VARIABLES[name as VariableName].kind === "boolean",
  };
}

/** Every flag of `holdfast serve`, in the order of its help. */
export const SETTINGS: readonly Setting[] = [
  ...Object.entries(OF_SERVE).map(([name, help]) => setting(name as keyof typeof OF_SERVE, help)),
  ...Object.entries(SERVED).map(([name, help]) => setting(name as ServedVariable, help)),
  ...[...WITHOUT_COUNTERPART, ...OF_CLOUDFLARE].map((name) => setting(name)),
];

export interface ServeSettings {
  readonly host: string;
  readonly port: number;
  readonly httpHost: string;
  readonly httpPort: number;
  /** Undefined if godistlock clients come in by WebSocket only. */
  readonly godistlockPort: number | undefined;
  /** The port of godistlock is a default: the service can do without it. */
  readonly isGodistlockOptional: boolean;
  /** Undefined if relays come in by WebSocket only. */
  readonly relayPort: number | undefined;
  readonly dataDir: string;
  readonly tls: KeyPair | undefined;
  /** Undefined: the service decides. */
  readonly httpMaxConnectionsPerIp: number | undefined;
  /** What is passed to the service: only what is set. */
  readonly variables: Readonly<Record<string, string>>;
  /** Flags and variables that were given but have no effect here. */
  readonly ignored: readonly string[];
}

interface Given {
  readonly label: string;
  readonly text: string;
}

export type Flags = Readonly<Record<string, string>>;
export type Environment = Readonly<Record<string, string | undefined>>;

/**
 * Reads flags (by flag name, `--port`) over environment variables over defaults. Throws a `UsageFailure` that names the
 * setting and the rule it breaks.
 */
export function readSettings(flags: Flags, env: Environment): ServeSettings {
  const byName = new Map(SETTINGS.map((each) => [each.name, given(each, flags, env)]));
  const get = (name: SettingName) => byName.get(name);
  for (const name of OF_CLOUDFLARE) refuseOnOneMachine(get(name));

  const host = read(get("HOST"), parseHost, HOST_RULE) ?? DEFAULTS.HOST;
  const port = read(get("PORT"), parsePortOrZero, ANY_PORT_RULE) ?? DEFAULTS.PORT;
  const httpHost = read(get("HTTP_HOST"), parseHost, HOST_RULE) ?? host;
  const httpPort = read(get("HTTP_PORT"), parsePortOrZero, ANY_PORT_RULE) ?? DEFAULTS.HTTP_PORT;
  if (port === httpPort && port !== 0 && host === httpHost)
    throw new UsageFailure("--port and --http-port must differ");

  const variables: Record<string, string> = {};
  for (const name of Object.keys(SERVED) as ServedVariable[]) {
    const file = FILES[name];
    const value = file ? readSecret(get(name), get(file)) : get(name);
    if (value === undefined) continue;
    const bad = checkVariable(name, value.text);
    if (bad) throw new UsageFailure(`${value.label} ${bad.rule}`);
    variables[name] = value.text;
  }
  const whole = readConfig(variables);
  if (!whole.ok) throw new UsageFailure(`${flagOf(whole.bad[0].name)} ${whole.bad[0].rule}`);
  const godistlockPort = read(get("GODISTLOCK_PORT"), parsePortOrZero, OPTIONAL_PORT_RULE) ?? DEFAULTS.GODISTLOCK_PORT;
  const isRelayPortAsked = get("RELAY_PORT") !== undefined;
  const relayPort = read(get("RELAY_PORT"), parsePortOrZero, OPTIONAL_PORT_RULE) ?? DEFAULTS.RELAY_PORT;
  // An open service must not be readable under a DNS name that an attacker controls.
  if (variables.AUTH_TOKEN === undefined) variables.HTTP_ALLOWED_HOSTS ??= LOOPBACK_NAMES_ONLY;
  return {
    host,
    port,
    httpHost,
    httpPort,
    godistlockPort: godistlockPort === 0 ? undefined : godistlockPort,
    isGodistlockOptional: get("GODISTLOCK_PORT") === undefined,
    // One that was asked for is opened: without a group, it tells a relay that it is not known.
    relayPort: relayPort === 0 || (variables.RELAY_PEERS === undefined && !isRelayPortAsked) ? undefined : relayPort,
    dataDir: get("DATA_DIR")?.text ?? DEFAULTS.DATA_DIR,
    tls: readOptionalKeyPair(pathOf(get("TLS_CERT")), pathOf(get("TLS_KEY")), { cert: "--tls-cert", key: "--tls-key" }),
    httpMaxConnectionsPerIp: read(get("HTTP_MAX_CONNECTIONS_PER_IP"), parseCount, COUNT_RULE),
    variables,
    ignored: WITHOUT_COUNTERPART.flatMap((name) => get(name)?.label ?? []),
  };
}

/** Ignoring it would let an operator rely on a placement that does not exist. */
function refuseOnOneMachine(value: Given | undefined): void {
  if (value === undefined) return;
  throw new UsageFailure(`${value.label} works on Cloudflare only: here everything is in the data directory`);
}

const ANY_PORT_RULE = `${PORT_RULE}, or 0 for any free port`;
const OPTIONAL_PORT_RULE = `${PORT_RULE}, or 0`;

function parsePortOrZero(text: string): number | undefined {
  return /^0+$/.test(text) ? 0 : parsePort(text);
}

const COUNT_RULE = `must be a whole number from 0 to ${Number.MAX_SAFE_INTEGER}`;

function parseCount(text: string): number | undefined {
  const count = Number(text);
  return /^[0-9]+$/.test(text) && Number.isSafeInteger(count) ? count : undefined;
}

/** An empty environment variable counts as unset; an empty flag was typed on purpose and is refused. */
function given(setting: Setting, flags: Flags, env: Environment): Given | undefined {
  const labels = setting.alias ? [setting, setting.alias] : [setting];
  const flag = onlyOne(labels.flatMap(({ flag }) => givenAs(flag, flags[flag])));
  if (flag === undefined) return onlyOne(labels.flatMap(({ env: name }) => givenAs(name, env[name] || undefined)));
  if (flag.text.trim() === "" && setting.name !== "HTTP_CORS_ALLOWED_ORIGINS") {
    throw new UsageFailure(`${flag.label} is empty`);
  }
  return flag;
}

function givenAs(label: string, text: string | undefined): Given[] {
  return text === undefined ? [] : [{ label, text }];
}

function onlyOne([first, second]: readonly Given[]): Given | undefined {
  if (first && second) throw new UsageFailure(`${first.label} and ${second.label} are one setting: give one of them`);
  return first;
}

function read<T>(value: Given | undefined, parse: (text: string) => T | undefined, rule: string): T | undefined {
  if (value === undefined || value.text.trim() === "") return undefined;
  const parsed = parse(value.text.trim());
  if (parsed === undefined) throw new UsageFailure(`${value.label} ${rule}`);
  return parsed;
}

function pathOf(value: Given | undefined): NamedPath | undefined {
  return value && { label: value.label, path: value.text };
}

/** The secret itself or its file. Neither can be blank: a service meant to be closed never opens by accident. */
function readSecret(secret: Given | undefined, file: Given | undefined): Given | undefined {
  if (secret && file) throw new UsageFailure(`${secret.label} and ${file.label} exclude each other`);
  if (file === undefined) return secret;
  return { label: file.label, text: readSecretFile({ label: file.label, path: file.text }) };
}
