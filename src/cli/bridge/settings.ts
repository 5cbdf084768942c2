import { validateHeaderValue } from "node:http";
import { checkVariable, ruleInWords } from "../../core/config/config.ts";
import { type Address, parseAddress } from "../../node/listeners/addresses.ts";
import { UsageFailure } from "../../node/listeners/failure.ts";
import type { Flag } from "../args/spec.ts";
import { type KeyPair, type NamedPath, readOptionalKeyPair, readSecretFile } from "../files.ts";
import type { Environment, Flags } from "../settings.ts";

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

const SECRET_ENV = "HOLDFAST_BRIDGE_SECRET";

/** The flags of `holdfast bridge`. */
export const BRIDGE_FLAGS: readonly Flag[] = [
  { name: "--listen", value: "HOST:PORT", help: "address of the TCP listener" },
  { name: "--to", value: "URL", help: "WebSocket address of the service, wss://locks.example.com/v1/ws" },
  {
    name: "--protocol",
    value: "NAME",
    choices: PROTOCOLS,
    help: "what clients speak: dflockd or godistlock (default: dflockd); --to names the path that serves it",
  },
  { name: "--tls-cert", value: "FILE", help: "PEM certificate chain: the listener speaks TLS" },
  { name: "--tls-key", value: "FILE", help: "PEM private key of the certificate" },
  { name: "--proxy-protocol", help: "expect a PROXY protocol header (version 1 or 2) on every connection" },
  {
    name: "--bridge-secret",
    value: "SECRET",
    help: `tell the service each client's address, vouched for by this secret [${SECRET_ENV}]`,
  },
  { name: "--bridge-secret-file", value: "FILE", help: "file that holds the secret" },
  {
    name: "--write-timeout",
    value: "SECONDS",
    help: "close a client that leaves replies unread for so long, 0 = never (default: 5)",
  },
];

/** Reads and validates all settings. Throws a `UsageFailure` that names the setting and the rule it breaks. */
export function readBridgeSettings(flags: Flags, env: Environment): BridgeSettings {
  const { "--listen": listen, "--to": to } = flags;
  if (listen === undefined) throw new UsageFailure("--listen is missing, for example --listen 127.0.0.1:6388");
  if (to === undefined) throw new UsageFailure("--to is missing, for example --to wss://locks.example.com/v1/ws");
  return {
    listen: parseAddress("--listen", listen),
    to: parseTarget(to),
    protocol: parseProtocol(flags["--protocol"] ?? "dflockd"),
    tls: readOptionalKeyPair(pathIn(flags, "--tls-cert"), pathIn(flags, "--tls-key"), {
      cert: "--tls-cert",
      key: "--tls-key",
    }),
    expectsProxyHeader: "--proxy-protocol" in flags,
    secret: readSecret(flags, env),
    writeTimeoutMs: readWriteTimeout(flags["--write-timeout"] ?? "5"),
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

function pathIn(flags: Flags, label: string): NamedPath | undefined {
  const path = flags[label];
  return path === undefined ? undefined : { label, path };
}

function readWriteTimeout(text: string): number {
  if (text.trim() === "" || checkVariable("WRITE_TIMEOUT_S", text)) {
    throw new UsageFailure(`--write-timeout ${ruleInWords("WRITE_TIMEOUT_S")}`);
  }
  return Number(text) * 1000;
}

function readSecret(flags: Flags, env: Environment): string | undefined {
  const [secret, file] = [flags["--bridge-secret"], pathIn(flags, "--bridge-secret-file")];
  if (secret !== undefined && file)
    throw new UsageFailure("--bridge-secret and --bridge-secret-file exclude each other");
  if (secret !== undefined) return checkSecret("--bridge-secret", secret);
  if (file) return checkSecret(file.label, readSecretFile(file));
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
