import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join, relative, resolve } from "node:path";
import { experimental_readRawConfig, unstable_getVarsForDev } from "wrangler";
import type { DevPort, PortName } from "./dev-settings.ts";

/** What is read or replaced in `wrangler.toml`; everything else is passed on as it is. */
interface WranglerConfig {
  readonly main: string;
  readonly build: { readonly command: string; readonly watch_dir: readonly string[] };
  readonly dev: Readonly<Record<string, unknown>>;
  readonly vars?: Readonly<Record<string, unknown>>;
  readonly [key: string]: unknown;
}

export function readWranglerConfig(path: string): WranglerConfig {
  return experimental_readRawConfig({ config: path }).rawConfig as unknown as WranglerConfig;
}

/** The Worker's variables in `.dev.vars`, or else `.env`, over those in `wrangler.toml`: what `wrangler dev` would read. */
export function variablesInFiles(path: string, config: WranglerConfig): Record<string, string> {
  const found = unstable_getVarsForDev(path, undefined, { ...config.vars }, undefined, true);
  return Object.fromEntries(Object.entries(found).map(([name, { value }]) => [name, textOf(value)]));
}

function textOf(value: unknown): string {
  return typeof value === "string" ? value : JSON.stringify(value);
}

/** A directory that holds a configuration for one run of `wrangler dev`. It is removed when disposed. */
export interface TemporaryConfig extends Disposable {
  readonly path: string;
}

/**
 * Writes `wrangler.toml` again, with these ports. Variables are passed by name and not by value: wrangler takes secrets
 * from its environment, prints them as hidden, and needs no file for them.
 */
export function writeTemporaryConfig(
  path: string,
  config: WranglerConfig,
  ports: readonly DevPort[],
  variables: Iterable<string>,
): TemporaryConfig {
  const directory = mkdtempSync(join(tmpdir(), "holdfast-dev-"));
  // wrangler resolves paths from the directory of the configuration (wrangler 4.158): `main` may be absolute, these may not.
  const root = dirname(resolve(path));
  const watched = config.build.watch_dir.map((each) => relative(directory, resolve(root, each)));
  const http = portOf(ports, "http");
  const own = {
    ...config,
    main: resolve(root, config.main),
    build: { ...config.build, watch_dir: watched },
    dev: { ...config.dev, ip: http?.host, port: http?.port },
    connect: ports
      .filter(({ name }) => name !== "http")
      .map(({ host, port }) => ({ protocol: "tcp", address: host, port })),
    secrets: { required: [...variables] },
    // There is only one environment here.
    env: undefined,
  };
  const target = join(directory, "wrangler.json");
  writeFileSync(target, JSON.stringify(own, undefined, 2));
  return { path: target, [Symbol.dispose]: () => rmSync(directory, { recursive: true, force: true }) };
}

export function portOf(ports: readonly DevPort[], name: PortName): DevPort | undefined {
  return ports.find((each) => each.name === name);
}
