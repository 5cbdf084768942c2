import { randomBytes } from "node:crypto";
import { parseArgs } from "node:util";

/** What `npm run deploy` was told. */
export interface DeployOptions {
  /** Publish a service that anybody may use. */
  readonly isOpen: boolean;
  /** Make a token, unless there is one in the file of secrets. */
  readonly makesToken: boolean;
  readonly isDryRun: boolean;
  /** An environment of `wrangler.toml`; empty is the top level. */
  readonly environment: string;
  /** Undefined: `.secrets`, or `.secrets.<environment>`. */
  readonly secretsFile: string | undefined;
  /** What follows `--`, for `wrangler deploy`. */
  readonly passedOn: readonly string[];
}

/** Why nothing is deployed, in words. */
export class DeployFailure extends Error {
  override readonly name = "DeployFailure";
  /** 2: bad arguments; 1: it cannot be done like this. */
  readonly exitCode: 1 | 2;

  constructor(message: string, exitCode: 1 | 2 = 1) {
    super(message);
    this.exitCode = exitCode;
  }
}

export const USAGE = `usage: npm run deploy -- [flags] [-- flags of wrangler deploy]

Publishes the service on Cloudflare with wrangler deploy, and prints its address. Refuses to
publish one without AUTH_TOKEN, which anybody could use.

  --make-token          make a token, keep it in .secrets, and deploy with it
  --secrets-file FILE   upload the secrets in this file (default: .secrets, if it is there)
  --open                publish without a token: anybody may use the service
  --env NAME            an environment of wrangler.toml, such as staging
  --dry-run             build and check everything, publish nothing, and ask Cloudflare nothing
  --help                this text`;

const FLAGS = {
  "make-token": { type: "boolean", default: false },
  "secrets-file": { type: "string" },
  open: { type: "boolean", default: false },
  env: { type: "string", short: "e", default: "" },
  "dry-run": { type: "boolean", default: false },
} as const;

/** Throws a `DeployFailure` that names the argument. */
export function readDeployOptions(args: readonly string[]): DeployOptions {
  const end = args.includes("--") ? args.indexOf("--") : args.length;
  const { values } = parsed(args.slice(0, end));
  const passedOn = args.slice(end + 1);
  const misplaced = passedOn.find((each) => /^(--name|--env|-e|--config|-c|--secrets-file|--dry-run)(=|$)/.test(each));
  if (misplaced !== undefined)
    throw new DeployFailure(
      `${misplaced} cannot be passed on to wrangler, because it changes what is published: put it before --, or into wrangler.toml`,
      2,
    );
  const { open: isOpen, "make-token": makesToken } = values;
  if (isOpen && makesToken)
    throw new DeployFailure("--open and --make-token exclude each other: with a token the service is not open", 2);
  return {
    isOpen,
    makesToken,
    isDryRun: values["dry-run"],
    environment: values.env,
    secretsFile: values["secrets-file"],
    passedOn,
  };
}

function parsed(args: readonly string[]) {
  try {
    return parseArgs({ args: [...args], options: FLAGS, strict: true });
  } catch (error) {
    const [problem] = (error instanceof Error ? error.message : String(error)).split(/\.(?: |$)/, 1);
    throw new DeployFailure(`${problem}; npm run deploy -- --help lists the flags. Those of wrangler go behind --`, 2);
  }
}

/** Where a deployment keeps the secrets that it was made with, beside `wrangler.toml` and out of git. */
export function secretsFileOf({ secretsFile, environment }: DeployOptions): string {
  return secretsFile ?? (environment === "" ? ".secrets" : `.secrets.${environment}`);
}

/** Whether a file of secrets, in the form of `.env` or as JSON, has this one. */
export function hasSecret(text: string, name: string): boolean {
  if (isJson(text)) return Boolean((JSON.parse(text) as Record<string, unknown>)[name]);
  return new RegExp(`^[ \\t]*(?:export[ \\t]+)?${name}[ \\t]*=[ \\t]*(?!['"]?[ \\t]*['"]?[ \\t]*$)\\S`, "m").test(text);
}

/** Whether a file of secrets has none, which wrangler would refuse (4.158). */
export function isBlank(text: string): boolean {
  return text.split("\n").every((line) => /^\s*(?:#|$)/.test(line));
}

function isJson(text: string): boolean {
  return text.trimStart().startsWith("{");
}

export function newToken(): string {
  return randomBytes(32).toString("hex");
}

/** What is known about the token before anything is published. */
export interface Known {
  /** The name of the file of secrets, and its text if it is there. */
  readonly file: { readonly name: string; readonly text: string | undefined };
  /** Names of variables in `wrangler.toml`. */
  readonly variables: readonly string[];
  /** AUTH_TOKEN in the environment of the command. */
  readonly exported: string | undefined;
}

/** What the Worker that is deployed has: the names of its secrets, or why Cloudflare could not be asked. */
export type Deployed =
  | { readonly status: "deployed"; readonly secrets: readonly string[] }
  | { readonly status: "none" }
  | { readonly status: "unknown"; readonly reason: string };

/**
 * Where the service gets its token from. `made`: to be made, and kept in the file; `file`: in the file; `exported`: in the
 * environment of the command; `deployed`: the Worker has one; `variable`: in `wrangler.toml`; `nowhere`: the service is open.
 */
export type TokenSource = "made" | "file" | "exported" | "deployed" | "variable" | "nowhere";

/** Decides. Throws a `DeployFailure` rather than let a service be published that nobody meant to be open. */
export async function sourceOfToken(
  options: DeployOptions,
  { file, variables, exported }: Known,
  ask: () => Promise<Deployed>,
): Promise<TokenSource> {
  if (options.secretsFile !== undefined && file.text === undefined && !options.makesToken)
    throw new DeployFailure(`--secrets-file ${file.name} is not there`, 2);
  if (file.text !== undefined && hasSecret(file.text, TOKEN)) {
    if (options.isOpen) throw new DeployFailure(`--open, but ${file.name} has an ${TOKEN}: remove one of them`, 2);
    return "file";
  }
  if (options.makesToken) {
    if (file.text !== undefined && isJson(file.text))
      throw new DeployFailure(`--make-token cannot add to ${file.name}, which is JSON: add ${TOKEN} yourself`, 2);
    return "made";
  }
  if (exported && !options.isOpen) return "exported";
  if (variables.includes(TOKEN)) return "variable";
  if (options.isOpen && options.isDryRun) return "nowhere";
  const deployed: Deployed = options.isDryRun ? { status: "none" } : await ask();
  if (deployed.status === "deployed" && deployed.secrets.includes(TOKEN)) return "deployed";
  if (options.isOpen) return "nowhere";
  if (deployed.status === "unknown")
    throw new DeployFailure(
      `${file.name} has no ${TOKEN}, and Cloudflare did not tell whether the Worker has one (${deployed.reason}): log in with \`npx wrangler login\`. ${WAYS}`,
    );
  throw new DeployFailure(`without ${TOKEN}, anybody who finds the address could use the service. ${WAYS}`);
}

const TOKEN = "AUTH_TOKEN";
const WAYS =
  "Make a token with `npm run deploy -- --make-token`, bring your own with --secrets-file FILE, or say --open if it is meant to be open";

/** Reads what `wrangler secret list` has printed. */
export function deployedFrom({ code, output }: { readonly code: number; readonly output: string }): Deployed {
  if (code === 0) {
    const [list = "[]"] = /\[[\s\S]*\]/.exec(output) ?? [];
    return { status: "deployed", secrets: (JSON.parse(list) as { name: string }[]).map(({ name }) => name) };
  }
  // In the words of wrangler 4.158, or as the code of the API.
  if (/Worker "[^"]*" not found|\b10007\b/.test(output)) return { status: "none" };
  // It could ask nobody to log in.
  if (output.includes("non-interactive environment")) return { status: "unknown", reason: "not logged in" };
  const [, reason = output] = /ERROR\S*\s+([^\n]+)/.exec(plain(output)) ?? [];
  return { status: "unknown", reason: reason.trim().split(/\.(?: |$)/, 1)[0] ?? "" };
}

/** Without the colours of a terminal. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: they begin with one
const plain = (text: string) => text.replaceAll(/\u001b\[[0-9;]*m/g, "");

/** The arguments of wrangler. The environment is always named: with several, wrangler warns otherwise (4.158). */
export function wranglerArguments(options: DeployOptions, secretsFile: string | undefined): string[] {
  return [
    "deploy",
    `--env=${options.environment}`,
    ...(secretsFile === undefined ? [] : ["--secrets-file", secretsFile]),
    ...(options.isDryRun ? ["--dry-run"] : []),
    ...options.passedOn,
  ];
}

/** The first address in the report that wrangler writes for programs, a JSON document in each line. */
export function addressIn(report: string): string | undefined {
  for (const line of report.split("\n").filter((each) => each !== "")) {
    const { type, targets } = JSON.parse(line) as { type?: string; targets?: readonly string[] };
    const [target] = (type === "deploy" && targets) || [];
    // A custom domain is listed as `locks.example.com (custom domain)`.
    if (target) return new URL(/^https?:/.test(target) ? target : `https://${target.split(" ")[0]}`).origin;
  }
  return undefined;
}

/** What to do next: the address, a command that works, the console. `text` is what the file of secrets holds, if it is there. */
export function instructions(address: string, source: TokenSource, file: string, text = ""): string {
  const shown = {
    made: fromFile(file, text),
    file: fromFile(file, text),
    exported: FROM_VARIABLE,
    deployed: FROM_VARIABLE,
    variable: FROM_VARIABLE,
    nowhere: undefined,
  }[source];
  const rows: [string, string][] = [
    ["address", address],
    ["try it", `curl -s ${shown === undefined ? "" : `-H ${shown} `}${address}/v1/stats`],
    ["console", `${address}/`],
    ["token", tokenRow(source, file)],
  ];
  return ["holdfast is deployed:", ...rows.map(([name, text]) => `  ${name.padEnd(9)} ${text}`)].join("\n");
}

const FROM_VARIABLE = '"Authorization: Bearer $AUTH_TOKEN"';

/** Read by the shell when the command runs, so that the token is not on the screen. A quoted one the shell would not understand. */
function fromFile(file: string, text: string): string {
  const isPlain = /^AUTH_TOKEN=[^\s'"$]+$/m.test(text);
  return isPlain ? `"Authorization: Bearer $(grep -E ^AUTH_TOKEN= < ${file} | cut -d= -f2-)"` : FROM_VARIABLE;
}

function tokenRow(source: TokenSource, file: string): string {
  switch (source) {
    case "made":
    case "file":
      return `in ${file}: keep it where your clients find it`;
    case "exported":
      return "the one in the variable AUTH_TOKEN: keep it where your clients find it";
    case "deployed":
      return "the one that the Worker has: put it into AUTH_TOKEN to try the command";
    case "variable":
      return "the one in wrangler.toml, where everybody who reads the file sees it: a secret is better";
    case "nowhere":
      return "none: anybody may use the service. npm run deploy -- --make-token closes it";
  }
}
