/**
 * `wrangler dev` with the flags of `holdfast serve`: the Worker and its Durable Objects on this machine, with hot reload.
 * Everything is switched off that would call home or look things up.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { resolve } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { HELP } from "../src/cli/args/flags.ts";
import { helpOf } from "../src/cli/args/help.ts";
import { parseArguments } from "../src/cli/args/parse.ts";
import type { CommandSpec } from "../src/cli/args/spec.ts";
import { settingFlags } from "../src/cli/setting-flags.ts";
import { type Flags, SETTINGS } from "../src/cli/settings.ts";
import { VERSION } from "../src/version.ts";
import { portOf, readWranglerConfig, variablesInFiles, writeTemporaryConfig } from "./dev-config.ts";
import { addressOf, freePorts } from "./dev-ports.ts";
import { DATA_DIR, DevFailure, type DevPort, readDevSettings } from "./dev-settings.ts";

const OFFLINE = {
  WRANGLER_SEND_METRICS: "false",
  WRANGLER_SEND_ERROR_REPORTS: "false",
  WRANGLER_HIDE_BANNER: "true",
  CLOUDFLARE_CF_FETCH_ENABLED: "false",
  X_LOCAL_OBSERVABILITY: "false",
};

const fileOf = (path: string) => fileURLToPath(new URL(`../${path}`, import.meta.url));
const CONFIG = fileOf("wrangler.toml");
const WRANGLER = fileOf("node_modules/wrangler/bin/wrangler.js");

const say = (line: string) => console.error(`holdfast: ${line}`);

const COMMAND: CommandSpec = {
  name: "dev",
  summary: "run the Worker with wrangler dev",
  about: "Every flag is also an environment variable; a flag wins. Stop with Ctrl-C.",
  operands: [],
  flags: settingFlags(SETTINGS.map((each) => (each.name === "DATA_DIR" ? { ...each, fallback: DATA_DIR } : each))),
  usage: "[flags]",
  examples: [],
};

/** Undefined if only the help was asked for. */
function readFlags(args: readonly string[]): Flags | undefined {
  const { values, problem, has } = parseArguments(COMMAND, args);
  if (has(HELP)) {
    console.log(helpOf(COMMAND).replaceAll("holdfast dev", "npm run dev --"));
    return undefined;
  }
  if (problem !== undefined) throw new DevFailure(`${problem}; see npm run dev -- --help`, 2);
  return values;
}

/** Resolves with the exit code when wrangler has ended. */
async function main(args: readonly string[]): Promise<number> {
  const flags = readFlags(args);
  if (flags === undefined) return 0;
  const wranglerConfig = readWranglerConfig(CONFIG);
  const settings = readDevSettings(flags, process.env, variablesInFiles(CONFIG, wranglerConfig));
  for (const line of settings.warnings) say(line);
  const ports = await freePorts(settings.ports, say);
  const variables = {
    ...settings.variables,
    GODISTLOCK_PORT: String(portOf(ports, "godistlock")?.port ?? 0),
    RELAY_PORT: String(portOf(ports, "relay")?.port ?? 0),
  };
  using config = writeTemporaryConfig(CONFIG, wranglerConfig, ports, Object.keys(variables));
  const wrangler = spawn(
    process.execPath,
    [WRANGLER, "dev", "--config", config.path, "--persist-to", resolve(settings.dataDir)],
    { env: { ...process.env, ...OFFLINE, ...variables }, stdio: "inherit" },
  );
  let isStopping = false;
  for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const)
    process.on(signal, () => {
      isStopping = true;
      // On SIGTERM wrangler stops the processes it has started, on SIGHUP it does not (wrangler 4.158).
      wrangler.kill("SIGTERM");
    });
  const ended = new Promise<number>((done, fail) => {
    wrangler.once("error", (error) => fail(new DevFailure(`cannot start wrangler: ${error.message}`, 1)));
    wrangler.once("exit", (code) => done(isStopping ? 0 : (code ?? 1)));
  });
  if (await answers(wrangler, ports)) console.log(banner(ports, settings.dataDir));
  // Awaited, so that the configuration stays until then.
  return await ended;
}

const ASK_EVERY_MS = 100;

/** Resolves with true as soon as the service answers, or with false when wrangler has ended. */
async function answers(wrangler: ChildProcess, ports: readonly DevPort[]): Promise<boolean> {
  const http = portOf(ports, "http");
  if (http === undefined) return false;
  const url = `http://${addressOf({ ...http, host: http.host === "*" ? "127.0.0.1" : http.host })}/health`;
  while (wrangler.exitCode === null && wrangler.signalCode === null) {
    const reply = await fetch(url).catch(() => undefined);
    if (reply?.ok) return true;
    await pause(ASK_EVERY_MS);
  }
  return false;
}

/** Every address that is served. */
function banner(ports: readonly DevPort[], dataDir: string): string {
  const lines = ports.flatMap((each) => {
    const address = addressOf(each);
    return each.name === "http"
      ? [
          ["http, console", `http://${address}/`],
          ["websocket", `ws://${address}/v1/ws`],
        ]
      : [[each.name, address]];
  });
  return [
    `holdfast ${VERSION} ready under wrangler dev:`,
    ...[...lines, ["data", dataDir]].map(([name = "", value]) => `  ${name.padEnd(14)} ${value}`),
  ].join("\n");
}

try {
  process.exitCode = await main(process.argv.slice(2));
} catch (error) {
  if (!(error instanceof DevFailure)) throw error;
  say(error.message);
  process.exitCode = error.exitCode;
}
