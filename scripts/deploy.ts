/** `npm run deploy`: publishes the service with wrangler, never without a token by accident, and says where it is. */
import { spawn } from "node:child_process";
import { chmodSync, existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import {
  addressIn,
  type Deployed,
  DeployFailure,
  type DeployOptions,
  deployedFrom,
  instructions,
  isBlank,
  newToken,
  readDeployOptions,
  secretsFileOf,
  sourceOfToken,
  USAGE,
  wranglerArguments,
} from "./deploy-plan.ts";
import { readWranglerConfig } from "./dev-config.ts";

const ROOT = fileURLToPath(new URL("..", import.meta.url));
const WRANGLER = join(ROOT, "node_modules/wrangler/bin/wrangler.js");
const QUIET = { WRANGLER_SEND_METRICS: "false", WRANGLER_SEND_ERROR_REPORTS: "false", WRANGLER_HIDE_BANNER: "true" };

const say = (line: string) => console.error(`deploy: ${line}`);

/** Resolves with the exit code. */
async function main(args: readonly string[]): Promise<number> {
  if (args.includes("--help") || args.includes("-h")) {
    console.log(USAGE);
    return 0;
  }
  const options = readDeployOptions(args);
  const { rawVariables, environments } = configuration(options);
  if (options.environment !== "" && !environments.includes(options.environment))
    throw new DeployFailure(
      `--env ${options.environment} is not in wrangler.toml, which has: ${environments.join(", ")}`,
      2,
    );
  const file = secretsFileOf(options);
  const path = resolve(ROOT, file);
  const text = existsSync(path) ? readFileSync(path, "utf8") : undefined;
  const source = await sourceOfToken(
    options,
    { file: { name: file, text }, variables: rawVariables, exported: process.env.AUTH_TOKEN },
    () => askCloudflare(options),
  );
  if (options.isOpen && source === "deployed")
    say("the Worker has an AUTH_TOKEN, so it stays closed; `npx wrangler secret delete AUTH_TOKEN` opens it");
  using folder = temporaryFolder();
  let secretsFile = text === undefined || isBlank(text) ? undefined : path;
  if (source === "made" && !options.isDryRun) {
    secretsFile = path;
    keepToken(path, text, newToken());
    say(`made a token, and keeps it in ${file}`);
  } else if (source === "made" || source === "exported") {
    secretsFile = join(folder.path, "secrets");
    keepToken(secretsFile, text, process.env.AUTH_TOKEN || newToken());
  }
  const report = join(folder.path, "report");
  const code = await run(wranglerArguments(options, secretsFile), { WRANGLER_OUTPUT_FILE_PATH: report });
  if (code !== 0) throw new DeployFailure("wrangler failed: what it says above is why");
  if (options.isDryRun) {
    console.log("dry run: everything is ready to be published, and nothing was");
    return 0;
  }
  const address = existsSync(report) ? addressIn(readFileSync(report, "utf8")) : undefined;
  if (address === undefined) say("the Worker is deployed, but has no address: give it a route in wrangler.toml");
  else console.log(`\n${instructions(address, source, file, existsSync(path) ? readFileSync(path, "utf8") : "")}`);
  return 0;
}

/** Variables and environments of `wrangler.toml`. */
function configuration({ environment }: DeployOptions): { rawVariables: string[]; environments: string[] } {
  const config = readWranglerConfig(join(ROOT, "wrangler.toml"));
  const environments = (config.env ?? {}) as Readonly<Record<string, { vars?: object } | undefined>>;
  const vars = environment === "" ? config.vars : environments[environment]?.vars;
  return { rawVariables: Object.keys(vars ?? {}), environments: Object.keys(environments) };
}

/** The secrets of the Worker that is deployed now. Never asks the user anything. */
function askCloudflare({ environment }: DeployOptions): Promise<Deployed> {
  const wrangler = spawn(process.execPath, [WRANGLER, "secret", "list", `--env=${environment}`, "--format=json"], {
    cwd: ROOT,
    env: { ...process.env, ...QUIET },
    stdio: ["ignore", "pipe", "pipe"],
  });
  let output = "";
  for (const stream of [wrangler.stdout, wrangler.stderr])
    stream.setEncoding("utf8").on("data", (text: string) => {
      output += text;
    });
  return new Promise((done, fail) => {
    wrangler.once("error", fail);
    wrangler.once("close", (code) => done(deployedFrom({ code: code ?? 1, output })));
  });
}

/** Writes the secrets in `text` and the token to the file, which nobody else may read. */
function keepToken(path: string, text = "", token: string): void {
  const before = text === "" || text.endsWith("\n") ? text : `${text}\n`;
  writeFileSync(path, `${before}AUTH_TOKEN=${token}\n`, { mode: 0o600 });
  chmodSync(path, 0o600);
}

/** Resolves with the exit code of wrangler. It may ask the user, for example to log in. */
function run(args: readonly string[], env: Readonly<Record<string, string>>): Promise<number> {
  const wrangler = spawn(process.execPath, [WRANGLER, ...args], {
    cwd: ROOT,
    // A variable of the same name would replace the secret in the file (wrangler 4.158).
    env: { ...process.env, AUTH_TOKEN: undefined, ...QUIET, ...env },
    stdio: "inherit",
  });
  return new Promise((done, fail) => {
    wrangler.once("error", fail);
    wrangler.once("exit", (code) => done(code ?? 1));
  });
}

function temporaryFolder(): Disposable & { readonly path: string } {
  const path = mkdtempSync(join(tmpdir(), "holdfast-deploy-"));
  return { path, [Symbol.dispose]: () => rmSync(path, { recursive: true, force: true }) };
}

try {
  process.exitCode = await main(process.argv.slice(2));
} catch (error) {
  if (!(error instanceof DeployFailure)) throw error;
  say(error.message);
  process.exitCode = error.exitCode;
}
