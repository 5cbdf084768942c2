import { TOKEN, TOKEN_FILE, URL_FLAG } from "../args/flags.ts";
import type { Arguments } from "../args/parse.ts";
import { UsageError } from "../output/errors.ts";

const DEFAULT_URL = "http://127.0.0.1:6389";

export type Environment = Readonly<Record<string, string | undefined>>;

/** The server that a command talks to, and the credential for it. */
export interface Target {
  /** http or https, without a trailing slash. */
  readonly url: string;
  readonly token: string | undefined;
}

/** Flags win over variables; an empty variable counts as unset. Never shows a token. */
export async function targetOf(args: Arguments, env: Environment): Promise<Target> {
  const given = args.text(URL_FLAG);
  const label = given === undefined ? "HOLDFAST_URL" : URL_FLAG.name;
  return { url: addressOf(given ?? (env.HOLDFAST_URL || DEFAULT_URL), label), token: await tokenOf(args, env) };
}

function addressOf(text: string, label: string): string {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  const isGood =
    url && /^(http|ws)s?:$/.test(url.protocol) && url.username === "" && url.password === "" && url.search === "";
  // The value is not shown: it may contain a password.
  if (!isGood) throw new UsageError(`${label} must be an http or https address, such as ${DEFAULT_URL}`);
  const path = url.pathname.replace(/(\/v1\/ws)?\/*$/, "");
  return `${url.protocol.replace(/^ws/, "http")}//${url.host}${path}`;
}

async function tokenOf(args: Arguments, env: Environment): Promise<string | undefined> {
  const [token, file] = [args.text(TOKEN), args.text(TOKEN_FILE)];
  if (token !== undefined && file !== undefined) throw new UsageError("--token and --token-file exclude each other");
  if (file !== undefined) return checkToken(await readTokenFile(file), TOKEN_FILE.name);
  if (token !== undefined) return checkToken(token, TOKEN.name);
  return env.HOLDFAST_TOKEN ? checkToken(env.HOLDFAST_TOKEN, "HOLDFAST_TOKEN") : undefined;
}

async function readTokenFile(path: string): Promise<string> {
  const { readSecretFile } = await import("../files.ts");
  return readSecretFile({ label: TOKEN_FILE.name, path });
}

function checkToken(text: string, label: string): string {
  const token = text.trim();
  // Characters that an HTTP header can carry.
  if (token !== "" && /^[\t\x20-\x7e\x80-\xff]+$/.test(token)) return token;
  throw new UsageError(`${label} must be one line of characters that fit in an HTTP header, and not blank`);
}
