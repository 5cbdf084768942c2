import { validateHeaderValue } from "node:http";
import { checkVariable, ruleInWords } from "../core/config/config.ts";
import { type Address, parseAddress } from "../node/listeners/addresses.ts";
import { UsageFailure } from "../node/listeners/failure.ts";
import { type KeyPair, readOptionalKeyPair, readSecretFile } from "./files.ts";
import type { Environment } from "./settings.ts";

export interface BridgeSettings {
  readonly listen: Address;
  readonly to: URL;
  /** What clients speak: the subprotocol that the service is asked for. */
  readonly protocol: BridgedProtocol;
  readonly tls: KeyPair | undefined;
  /** Whether every connection opens with a PROXY protocol header. */
  readonly expectsProxyHeader: boolean;
  readonly secret: string | undefined;
  /** How long a client may leave pending bytes unread; 0 means no limit. */
  readonly writeTimeoutMs: number;
}

const PROTOCOLS = ["dflockd", "godistlock"] as const;
export type BridgedProtocol = (typeof PROTOCOLS)[number];

export interface BridgeFlags {
  readonly listen?: string;
  readonly to?: string;
  readonly protocol?: string;
  readonly tlsCert?: string;
  readonly tlsKey?: string;
  readonly proxyProtocol?: boolean;
  readonly bridgeSecret?: string;
  readonly bridgeSecretFile?: string;
  readonly writeTimeout?: string;
}

const SECRET_ENV = "HOLDFAST_BRIDGE_SECRET";

/** The flags of `holdfast bridge` with their help. */
export const BRIDGE_HELP: readonly (readonly [string, string])[] = [
  ["--listen <host:port>", "address of the TCP listener"],
  ["--to <url>", "WebSocket address of the service, wss://locks.example.com/v1/ws"],
  [
    "--protocol <name>",
    "what clients speak: dflockd or godistlock (default: dflockd); --to names the path that serves it",
  ],
  ["--tls-cert <file>", "PEM certificate chain: the listener speaks TLS"],
  ["--tls-key <file>", "PEM private key of the certificate"],
  ["--proxy-protocol", "expect a PROXY protocol header (version 1 or 2) on every connection"],
  ["--bridge-secret <secret>", `tell the service each client's address, vouched for by this secret [${SECRET_ENV}]`],
  ["--bridge-secret-file <file>", "file that holds the secret"],
  ["--write-timeout <seconds>", "close a client that leaves replies unread for so long, 0 = never (default: 5)"],
];

/** Reads and validates all settings. Throws a `UsageFailure` that names the setting and the rule it breaks. */
export function readBridgeSettings(flags: BridgeFlags, env: Environment): BridgeSettings {
  if (flags.listen === undefined) throw new UsageFailure("--listen is missing, for example --listen 127.0.0.1:6388");
  if (flags.to === undefined) throw new UsageFailure("--to is missing, for example --to wss://locks.example.com/v1/ws");
  return {
    listen: parseAddress("--listen", flags.listen),
    to: parseTarget(flags.to),
    protocol: parseProtocol(flags.protocol ?? "dflockd"),
    tls: readOptionalKeyPair(pathOf("--tls-cert", flags.tlsCert), pathOf("--tls-key", flags.tlsKey), {
      cert: "--tls-cert",
      key: "--tls-key",
    }),
    expectsProxyHeader: flags.proxyProtocol ?? false,
    secret: readSecret(flags, env),
    writeTimeoutMs: readWriteTimeout(flags.writeTimeout ?? "5"),
  };
}

function parseTarget(text: string): URL {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  const isGood = url && /^wss?:$/.test(url.protocol) && url.hash === "" && url.username === "" && url.password === "";
  if (!isGood) throw new UsageFailure("--to must be a ws:// or wss:// address without user name or #fragment");
  return url;
}

function parseProtocol(text: string): BridgedProtocol {
  const protocol = PROTOCOLS.find((name) => name === text);
  if (!protocol) throw new UsageFailure(`--protocol must be one of ${PROTOCOLS.join(", ")}`);
  return protocol;
}

function pathOf(label: string, path: string | undefined) {
  return path === undefined ? undefined : { label, path };
}

function readWriteTimeout(text: string): number {
  if (text.trim() === "" || checkVariable("WRITE_TIMEOUT_S", text)) {
    throw new UsageFailure(`--write-timeout ${ruleInWords("WRITE_TIMEOUT_S")}`);
  }
  return Number(text) * 1000;
}

function readSecret(flags: BridgeFlags, env: Environment): string | undefined {
  if (flags.bridgeSecret !== undefined && flags.bridgeSecretFile !== undefined) {
    throw new UsageFailure("--bridge-secret and --bridge-secret-file exclude each other");
  }
  if (flags.bridgeSecret !== undefined) return checkSecret("--bridge-secret", flags.bridgeSecret);
  if (flags.bridgeSecretFile !== undefined) {
    const file = { label: "--bridge-secret-file", path: flags.bridgeSecretFile };
    return checkSecret(file.label, readSecretFile(file));
  }
  return env[SECRET_ENV] ? checkSecret(SECRET_ENV, env[SECRET_ENV]) : undefined;
}

function checkSecret(label: string, text: string): string {
  const secret = text.trim();
  if (secret === "" || checkVariable("BRIDGE_SECRET", secret)) {
    throw new UsageFailure(`${label} ${ruleInWords("BRIDGE_SECRET")}`);
  }
  try {
    validateHeaderValue("X-Holdfast-Bridge", secret);
  } catch {
    throw new UsageFailure(`${label} must consist of characters that fit in an HTTP header`);
  }
  return secret;
}
