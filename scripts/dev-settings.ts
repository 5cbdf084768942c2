import { COMMON_NAMES, misnamedVariables } from "../src/cli/misnamed.ts";
import { type Environment, type Flags, readSettings, SETTINGS, type Setting } from "../src/cli/settings.ts";
import { OF_CLOUDFLARE, VARIABLES, type VariableName } from "../src/core/config/config.ts";

/** Where `wrangler dev` keeps its state by itself. `holdfast serve` keeps its own elsewhere. */
export const DATA_DIR = ".wrangler/state";

/** Why `npm run dev` cannot start, in one line. */
export class DevFailure extends Error {
  override readonly name = "DevFailure";
  /** 2: bad flags or variables; 1: it cannot be done now. */
  readonly exitCode: 1 | 2;

  constructor(message: string, exitCode: 1 | 2) {
    super(message);
    this.exitCode = exitCode;
  }
}

export type PortName = "tcp" | "http" | "godistlock" | "relay";

/** A port to serve on. */
export interface DevPort {
  readonly name: PortName;
  readonly host: string;
  readonly port: number;
  /** The flag that moves it. */
  readonly flag: string;
  /** A default that the user did not choose, and that the service can do without: left out if it is taken. */
  readonly isOptional: boolean;
}

export interface DevSettings {
  readonly ports: readonly DevPort[];
  readonly dataDir: string;
  /** Variables of the Worker, from flags, environment and files. Ports are not among them. */
  readonly variables: Readonly<Record<string, string>>;
  /** One line for each setting that has no effect. */
  readonly warnings: readonly string[];
}

/**
 * Reads the flags of `holdfast serve` over environment variables (`DFLOCKD_MAX_WAITERS` or `MAX_WAITERS`) over the
 * variables in files. Throws a failure that names the setting and the rule it breaks.
 */
export function readDevSettings(
  flags: Flags,
  env: Environment,
  files: Readonly<Record<string, string>> = {},
): DevSettings {
  const sources = new Sources(flags, env, files);
  const settings = sources.read();
  if (settings.tls) throw new DevFailure("--tls-cert and --tls-key need npm start: wrangler dev has no TLS for TCP", 2);
  const { host, httpHost, godistlockPort, relayPort } = settings;
  const optional = (name: PortName, flag: string, port: number | undefined): DevPort[] =>
    port === undefined ? [] : [{ name, host, port, flag, isOptional: !sources.isAsked(flag) }];
  const names = new Set<string>(SETTINGS.map(({ name }) => name).filter((name) => !isOfCloudflare(name)));
  const others = Object.entries(files).filter(([name]) => !names.has(name));
  return {
    ports: [
      { name: "tcp", host, port: settings.port, flag: "--port", isOptional: false },
      { name: "http", host: httpHost, port: settings.httpPort, flag: "--http-port", isOptional: false },
      ...optional("godistlock", "--godistlock-port", godistlockPort),
      ...optional("relay", "--relay-port", relayPort),
    ],
    dataDir: settings.dataDir,
    variables: { ...Object.fromEntries(others), ...settings.variables },
    warnings: [
      ...[...settings.ignored, ...sources.labelsOf("HTTP_MAX_CONNECTIONS_PER_IP")].map(
        (label) => `ignored, without counterpart here: ${label}`,
      ),
      ...misnamedVariables(SETTINGS, flags, sources.env),
    ],
  };
}

const isOfCloudflare = (name: string) => (OF_CLOUDFLARE as readonly string[]).includes(name);

/** Where settings come from. `env` holds them all under the names that `holdfast serve` reads. */
class Sources {
  readonly env: Environment;
  readonly #flags: Flags;
  /** What the user calls a variable of `env`, if not by its name there. */
  readonly #labels = new Map<string, string>();

  constructor(flags: Flags, env: Environment, files: Readonly<Record<string, string>>) {
    this.#flags = flags;
    const merged: Record<string, string | undefined> = { HOLDFAST_DATA_DIR: DATA_DIR };
    const isGiven = ({ name, ...labels }: Setting) =>
      [labels, ...(labels.alias ? [labels.alias] : [])].some(
        (each) => flags[each.flag] !== undefined || env[each.env],
      ) || plainOf(name, env) !== undefined;
    const given = new Set<string>(SETTINGS.filter(isGiven).map(({ name }) => name));
    for (const { name, env: label } of SETTINGS) {
      const plain = plainOf(name, env);
      if (plain !== undefined) this.#add(merged, label, name, plain);
      // A secret on the command line replaces the file of a secret in `.dev.vars`, and the other way round.
      else if (files[name] && !given.has(name) && !given.has(partnerOf(name)) && !isOfCloudflare(name))
        this.#add(merged, label, `${name} in .dev.vars, .env or wrangler.toml`, files[name]);
    }
    this.env = { ...merged, ...Object.fromEntries(Object.entries(env).filter(([, text]) => text)) };
  }

  #add(merged: Record<string, string | undefined>, name: string, label: string, text: string): void {
    merged[name] = text;
    this.#labels.set(name, label);
  }

  read(): ReturnType<typeof readSettings> {
    try {
      return readSettings(this.#flags, this.env);
    } catch (error) {
      if (error instanceof Error && "exitCode" in error && error.exitCode === 2)
        throw new DevFailure(this.#explained(error.message), 2);
      throw error;
    }
  }

  /** Whether the user has set what this flag sets. */
  isAsked(flag: string): boolean {
    return SETTINGS.some((each) => each.flag === flag && (this.#flags[flag] ?? this.env[each.env]) !== undefined);
  }

  labelsOf(name: string): string[] {
    const setting = SETTINGS.find((each) => each.name === name);
    if (!setting || !this.isAsked(setting.flag)) return [];
    return [this.#flags[setting.flag] === undefined ? this.#labelOf(setting.env) : setting.flag];
  }

  #labelOf(variable: string): string {
    return this.#labels.get(variable) ?? variable;
  }

  /** The message with the names the user has used, and the value, unless it may be a secret. */
  #explained(message: string): string {
    const [, label = ""] = /^(\S+) must /.exec(message) ?? [];
    const setting = SETTINGS.find((each) => each.flag === label || each.env === label);
    const text = this.#flags[label] ?? this.env[label];
    const value = setting && text !== undefined && !isSecret(setting.name) ? `, not ${JSON.stringify(text)}` : "";
    return message.replace(/(?:DFLOCKD|HOLDFAST)_[A-Z_]+/g, (name) => this.#labelOf(name)) + value;
  }
}

/** A variable without prefix, unless other programs use that name too. */
function plainOf(name: string, env: Environment): string | undefined {
  return COMMON_NAMES.has(name) ? undefined : env[name] || undefined;
}

function partnerOf(name: string): string {
  return name.endsWith("_FILE") ? name.slice(0, -"_FILE".length) : `${name}_FILE`;
}

function isSecret(name: string): boolean {
  const kind = name in VARIABLES ? VARIABLES[name as VariableName].kind : undefined;
  // The addresses of peers may hold credentials.
  return kind === "secret" || kind === "relay_token" || kind === "peers";
}
