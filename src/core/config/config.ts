/**
 * The service's variables, read once into one typed value. This is the only place for defaults and ranges. It imports
 * nothing of either host, so that `holdfast serve` checks its flags against the same table.
 */
import {
  isJurisdiction,
  JURISDICTIONS,
  type Jurisdiction,
  LOCATIONS,
  type LocationHint,
  locationHintsOf,
} from "./locations.ts";
import { isId, MAX_PEERS, peersOf, type RelayPeer } from "./relay-peers.ts";

export interface Config {
  readonly authToken: string | undefined;
  readonly readTimeoutMs: number;
  readonly writeTimeoutMs: number;
  readonly defaultLeaseSeconds: number;
  readonly gcIntervalMs: number;
  readonly gcMaxIdleMs: number;
  readonly maxLocks: number;
  readonly maxWaiters: number;
  readonly maxConnections: number;
  readonly maxConnectionsPerIp: number;
  readonly autoRelease: boolean;
  readonly draining: boolean;
  /** How long a session that lost its socket may be resumed; 0 means not at all. */
  readonly resumeGraceMs: number;
  readonly fenceFloor: bigint;
  /** The value told to clients; a session may be silent for twice as long. 0 means no limit. */
  readonly httpSessionIdleSeconds: number;
  readonly httpSessionIdleMs: number;
  readonly httpMaxSessions: number;
  readonly httpMaxSessionsPerIp: number;
  /** Requests per second and address; 0 means no limit. */
  readonly httpRateLimitPerIp: number;
  /** Size of an address's bucket; 0 means the rate. */
  readonly httpRateLimitBurst: number;
  readonly corsOrigins: readonly string[];
  /** Host names served besides localhost and IP addresses, in lower case. `*` or an empty list means any. */
  readonly allowedHosts: readonly string[];
  readonly debug: boolean;
  /** Header that names the client's address; empty if no header is trusted. */
  readonly clientIpHeader: string;
  readonly bridgeSecret: string | undefined;
  /** Allows the administration routes, and everything that `authToken` allows. */
  readonly adminToken: string | undefined;
  /** Signs tickets; without it `authToken` does. */
  readonly ticketSecret: string | undefined;
  /** How godistlock clients know this deployment. */
  readonly serverId: string;
  /** Undefined if this deployment is on its own. */
  readonly relay: RelayConfig | undefined;
  /** The TCP port on which the Worker speaks godistlock; 0 means none. Only `wrangler dev` opens TCP ports. */
  readonly godistlockPort: number;
  /** The TCP port for relays of other deployments; 0 means none. */
  readonly relayPort: number;
  /** Where new keys are placed, by the beginning of their names; the longest prefix comes first. */
  readonly locationHints: readonly LocationHint[];
  /** Where all objects must stay; undefined means anywhere. */
  readonly jurisdiction: Jurisdiction | undefined;
}

/** The group of deployments that agree on locks. */
export interface RelayConfig {
  readonly id: string;
  readonly token: string;
  /** Without this deployment. */
  readonly peers: readonly RelayPeer[];
  /** A strict majority, this deployment included. */
  readonly need: number;
}

/** A variable that breaks its rule. The value is left out on purpose: it may be a secret. */
export interface BadVariable {
  readonly name: string;
  readonly rule: string;
}

export type Variables = Readonly<Record<string, unknown>>;

export const MAX_SECONDS = 9_223_372_036;
const MAX_COUNT = Number.MAX_SAFE_INTEGER;
const MAX_FENCE_FLOOR = 2n ** 63n - 1n;
const MAX_SECRET_BYTES = 65_536;
/** As long as the digest it is used with: a shorter one could be guessed offline from a ticket. */
const MIN_TICKET_SECRET_BYTES = 32;
const RELAY_TOKEN_BYTES = { min: 16, max: 4_096 };
const DEFAULT_SERVER_ID = "holdfast";

interface IntegerRule {
  readonly kind: "integer";
  readonly min: number;
  readonly max: number;
  readonly fallback: number;
}
type Rule =
  | IntegerRule
  | { readonly kind: "boolean"; readonly fallback: boolean }
  | { readonly kind: "fence" }
  | { readonly kind: "secret"; readonly minBytes: number }
  | { readonly kind: "origins"; readonly fallback: "" }
  | { readonly kind: "hosts"; readonly fallback: "" }
  | { readonly kind: "header"; readonly fallback: string }
  | { readonly kind: "id" | "peers" | "relay_token" | "locations" | "jurisdiction" }
  | { readonly kind: "unsupported" };

const seconds = (fallback: number, min: number): IntegerRule => ({ kind: "integer", min, max: MAX_SECONDS, fallback });
const count: IntegerRule = { kind: "integer", min: 0, max: MAX_COUNT, fallback: 0 };
const port = (fallback: number): IntegerRule => ({ kind: "integer", min: 0, max: 65_535, fallback });
const rate: IntegerRule = { kind: "integer", min: 0, max: 1_000_000, fallback: 0 };
const secret = { kind: "secret", minBytes: 1 } as const;

/** Every variable of the service, in the order in which bad ones are reported. */
export const VARIABLES = {
  AUTH_TOKEN: secret,
  READ_TIMEOUT_S: seconds(23, 1),
  WRITE_TIMEOUT_S: seconds(5, 0),
  DEFAULT_LEASE_TTL_S: seconds(33, 1),
  LEASE_SWEEP_INTERVAL_S: seconds(1, 1),
  GC_INTERVAL_S: seconds(5, 1),
  GC_MAX_IDLE_S: seconds(60, 0),
  MAX_LOCKS: count,
  MAX_WAITERS: count,
  MAX_CONNECTIONS: count,
  MAX_CONNECTIONS_PER_IP: count,
  AUTO_RELEASE_ON_DISCONNECT: { kind: "boolean", fallback: true },
  DRAINING: { kind: "boolean", fallback: false },
  FENCE_FLOOR: { kind: "fence" },
  HTTP_SESSION_IDLE_S: seconds(20, 0),
  HTTP_MAX_SESSIONS: count,
  HTTP_MAX_SESSIONS_PER_IP: count,
  HTTP_RATE_LIMIT_PER_IP: rate,
  HTTP_RATE_LIMIT_BURST: rate,
  HTTP_CORS_ALLOWED_ORIGINS: { kind: "origins", fallback: "" },
  HTTP_ALLOWED_HOSTS: { kind: "hosts", fallback: "" },
  DEBUG: { kind: "boolean", fallback: false },
  CLIENT_IP_HEADER: { kind: "header", fallback: "CF-Connecting-IP" },
  BRIDGE_SECRET: secret,
  RESUME_GRACE_S: { kind: "integer", min: 0, max: 3_600, fallback: 10 },
  ADMIN_TOKEN: secret,
  TICKET_SECRET: { kind: "secret", minBytes: MIN_TICKET_SECRET_BYTES },
  SERVER_ID: { kind: "id" },
  RELAY_ID: { kind: "id" },
  RELAY_PEERS: { kind: "peers" },
  RELAY_TOKEN: { kind: "relay_token" },
  GODISTLOCK_PORT: port(10_000),
  RELAY_PORT: port(20_000),
  LOCATION_HINTS: { kind: "locations" },
  JURISDICTION: { kind: "jurisdiction" },
  AUTH_TOKEN_FILE: { kind: "unsupported" },
  TLS_CERT: { kind: "unsupported" },
  TLS_KEY: { kind: "unsupported" },
  ADMIN_TOKEN_FILE: { kind: "unsupported" },
  TICKET_SECRET_FILE: { kind: "unsupported" },
  RELAY_TOKEN_FILE: { kind: "unsupported" },
} as const satisfies Record<string, Rule>;

/** dflockd's settings without a counterpart: accepted, so that its start scripts keep working, and named in the log. */
export const WITHOUT_COUNTERPART = ["SHUTDOWN_TIMEOUT_S", "FENCE_STATE_FILE"] as const;

/** Settings of listeners, which only `holdfast serve` has. */
export const OF_LISTENERS = ["HTTP_PORT", "HTTP_HOST", "HTTP_MAX_CONNECTIONS_PER_IP"] as const;

/** Cloudflare-only placement variables. */
export const OF_CLOUDFLARE = ["LOCATION_HINTS", "JURISDICTION"] as const;

export type VariableName = keyof typeof VARIABLES;

/** A variable's rule in words, for a log line or an error message. */
export function ruleInWords(name: VariableName): string {
  const rule: Rule = VARIABLES[name];
  switch (rule.kind) {
    case "integer":
      return `must be a whole number from ${rule.min} to ${rule.max}`;
    case "boolean":
      return "must be one of 1, yes, true, 0, no, false";
    case "fence":
      return `must be a whole number from 0 to ${MAX_FENCE_FLOOR}`;
    case "secret":
      return `must be ${rule.minBytes} to ${MAX_SECRET_BYTES} bytes, not blank, without line breaks`;
    case "origins":
      return "must be * or a comma list of origins such as https://app.example, without a path";
    case "hosts":
      return "must be * or a comma list of host names such as locks.example, without scheme and port";
    case "header":
      return "must be the name of a header, or empty";
    case "id":
      return "must be 1 to 64 letters, digits, dots, underscores or hyphens";
    case "peers":
      return (
        `must be a comma list of at most ${MAX_PEERS} other deployments such as s1=wss://locks.example, each once; ` +
        "their addresses begin with wss://, ws:// or tcp://"
      );
    case "relay_token":
      return `must be ${RELAY_TOKEN_BYTES.min} to ${RELAY_TOKEN_BYTES.max} bytes without blanks`;
    case "locations":
      return `must be a comma list of prefix=region such as eu/=weur, each prefix once; regions are ${LOCATIONS.join(", ")}`;
    case "jurisdiction":
      return `must be one of ${JURISDICTIONS.join(", ")}`;
    case "unsupported":
      return "is not supported as a variable of the Worker";
  }
}

type Value = string | number | boolean | bigint | undefined;

/** The text of a variable, or undefined if it counts as unset. Blank secrets are kept, so that they are refused. */
function textOf(raw: unknown, rule: Rule): string | undefined {
  if (raw === undefined || raw === null) return undefined;
  const text = String(raw);
  if (rule.kind === "secret") return text === "" ? undefined : trimBlanks(text);
  const trimmed = text.trim();
  return trimmed === "" && rule.kind !== "header" ? undefined : trimmed;
}

/** Trims the wire protocol's blanks, so that a token is trimmed alike on both sides. */
function trimBlanks(text: string): string {
  return text.replace(/^[ \t\v\f\r\n]+|[ \t\v\f\r\n]+$/g, "");
}

const BAD = Symbol("bad");

function parse(rule: Rule, text: string): Value | typeof BAD {
  switch (rule.kind) {
    case "integer": {
      if (!/^[0-9]+$/.test(text)) return BAD;
      const value = Number(text);
      return value >= rule.min && value <= rule.max ? value : BAD;
    }
    case "boolean":
      if (/^(1|yes|true)$/i.test(text)) return true;
      return /^(0|no|false)$/i.test(text) ? false : BAD;
    case "fence": {
      if (!/^[0-9]+$/.test(text)) return BAD;
      const value = BigInt(text);
      return value <= MAX_FENCE_FLOOR ? value : BAD;
    }
    case "secret": {
      const bytes = new TextEncoder().encode(text).length;
      return bytes >= rule.minBytes && bytes <= MAX_SECRET_BYTES && !/[\r\n]/.test(text) ? text : BAD;
    }
    case "origins":
      return entriesOf(text).every(isOrigin) ? text : BAD;
    case "hosts":
      return entriesOf(text).every(isHost) ? text : BAD;
    case "header":
      return /^[\w!#$%&'*+.^`|~-]*$/.test(text) ? text : BAD;
    case "id":
      return isId(text) ? text : BAD;
    case "peers":
      return peersOf(entriesOf(text)) ? text : BAD;
    case "relay_token": {
      const bytes = new TextEncoder().encode(text).length;
      return bytes >= RELAY_TOKEN_BYTES.min && bytes <= RELAY_TOKEN_BYTES.max && !/\s/.test(text) ? text : BAD;
    }
    case "locations":
      return locationHintsOf(entriesOf(text)) ? text : BAD;
    case "jurisdiction":
      return isJurisdiction(text) ? text : BAD;
    case "unsupported":
      return BAD;
  }
}

function fallbackOf(rule: Rule): Value {
  switch (rule.kind) {
    case "integer":
    case "boolean":
    case "origins":
    case "hosts":
    case "header":
      return rule.fallback;
    case "fence":
      return 0n;
    case "secret":
    case "id":
    case "peers":
    case "relay_token":
    case "locations":
    case "jurisdiction":
    case "unsupported":
      return undefined;
  }
}

/** Validates one variable as the service would; undefined means that it is valid. */
export function checkVariable(name: VariableName, raw: unknown): BadVariable | undefined {
  const rule: Rule = VARIABLES[name];
  const text = textOf(raw, rule);
  if (text === undefined || parse(rule, text) !== BAD) return undefined;
  return { name, rule: ruleInWords(name) };
}

export type ConfigResult =
  | { readonly ok: true; readonly config: Config }
  | { readonly ok: false; readonly bad: readonly [BadVariable, ...BadVariable[]] };

/** Reads all variables. Either all are valid, or all bad ones are listed in table order. */
export function readConfig(variables: Variables): ConfigResult {
  const values = {} as Record<VariableName, Value>;
  const bad: BadVariable[] = [];
  for (const name of Object.keys(VARIABLES) as VariableName[]) {
    const rule: Rule = VARIABLES[name];
    const text = textOf(variables[name], rule);
    const value = text === undefined ? fallbackOf(rule) : parse(rule, text);
    if (value === BAD) bad.push({ name, rule: ruleInWords(name) });
    else values[name] = value;
  }
  if (values.RELAY_PEERS !== undefined) {
    for (const name of ["RELAY_ID", "RELAY_TOKEN"] as const) {
      if (variables[name] === undefined) bad.push({ name, rule: "must be set if RELAY_PEERS is" });
    }
  }
  const [first, ...others] = bad;
  if (first) return { ok: false, bad: [first, ...others] };
  const number = (name: VariableName) => values[name] as number;
  const ms = (name: VariableName) => number(name) * 1000;
  return {
    ok: true,
    config: {
      authToken: values.AUTH_TOKEN as string | undefined,
      readTimeoutMs: ms("READ_TIMEOUT_S"),
      writeTimeoutMs: ms("WRITE_TIMEOUT_S"),
      defaultLeaseSeconds: number("DEFAULT_LEASE_TTL_S"),
      gcIntervalMs: ms("GC_INTERVAL_S"),
      gcMaxIdleMs: ms("GC_MAX_IDLE_S"),
      maxLocks: number("MAX_LOCKS"),
      maxWaiters: number("MAX_WAITERS"),
      maxConnections: number("MAX_CONNECTIONS"),
      maxConnectionsPerIp: number("MAX_CONNECTIONS_PER_IP"),
      autoRelease: values.AUTO_RELEASE_ON_DISCONNECT as boolean,
      draining: values.DRAINING as boolean,
      resumeGraceMs: ms("RESUME_GRACE_S"),
      fenceFloor: values.FENCE_FLOOR as bigint,
      httpSessionIdleSeconds: number("HTTP_SESSION_IDLE_S"),
      httpSessionIdleMs: ms("HTTP_SESSION_IDLE_S"),
      httpMaxSessions: number("HTTP_MAX_SESSIONS"),
      httpMaxSessionsPerIp: number("HTTP_MAX_SESSIONS_PER_IP"),
      httpRateLimitPerIp: number("HTTP_RATE_LIMIT_PER_IP"),
      httpRateLimitBurst: number("HTTP_RATE_LIMIT_BURST"),
      corsOrigins: entriesOf(values.HTTP_CORS_ALLOWED_ORIGINS as string),
      allowedHosts: entriesOf(values.HTTP_ALLOWED_HOSTS as string).map((host) => host.toLowerCase().replace(/\.$/, "")),
      debug: values.DEBUG as boolean,
      clientIpHeader: values.CLIENT_IP_HEADER as string,
      bridgeSecret: values.BRIDGE_SECRET as string | undefined,
      adminToken: values.ADMIN_TOKEN as string | undefined,
      ticketSecret: values.TICKET_SECRET as string | undefined,
      serverId: (values.SERVER_ID ?? values.RELAY_ID ?? DEFAULT_SERVER_ID) as string,
      relay: relayOf(values.RELAY_ID, values.RELAY_TOKEN, values.RELAY_PEERS),
      godistlockPort: number("GODISTLOCK_PORT"),
      relayPort: number("RELAY_PORT"),
      locationHints: locationHintsOf(entriesOf((values.LOCATION_HINTS ?? "") as string)) ?? [],
      jurisdiction: values.JURISDICTION as Jurisdiction | undefined,
    },
  };
}

/** Undefined if no other deployment is listed. */
function relayOf(id: Value, token: Value, list: Value): RelayConfig | undefined {
  if (typeof id !== "string" || typeof token !== "string" || typeof list !== "string") return undefined;
  // One list fits all: every deployment finds itself in it.
  const peers = (peersOf(entriesOf(list)) ?? []).filter((peer) => peer.id !== id);
  return peers.length > 0 ? { id, token, peers, need: Math.floor((peers.length + 1) / 2) + 1 } : undefined;
}

/** As browsers write them: scheme, host and port, nothing else. Pages without their own origin are `null`. */
function isOrigin(text: string): boolean {
  return text === "*" || text === "null" || /^[a-z][a-z0-9+.-]*:\/\/[^/?#\s@]+$/i.test(text);
}

/** A name, or an address, which needs no listing but does no harm. */
function isHost(text: string): boolean {
  return text === "*" || /^(?:[\w-]+(?:\.[\w-]+)*\.?|\[[0-9a-f:.]+\])$/i.test(text);
}

function entriesOf(list: string): readonly string[] {
  return list
    .split(",")
    .map((entry) => entry.trim())
    .filter((entry) => entry !== "");
}
