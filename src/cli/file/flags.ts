import { parseArgs } from "node:util";

/** The flags of `holdfast file`, as given. Every command has `--json`, `--quiet` and `--help`. */
export interface Flags {
  readonly stale?: number;
  readonly timeout?: number;
  readonly tag?: string;
  readonly force?: boolean;
}

export type FlagName = keyof Flags;

/** How the result is printed, even if other arguments are invalid. */
export interface OutputFlags {
  readonly isJson: boolean;
  readonly isQuiet: boolean;
}

export type Parsed = OutputFlags &
  (
    | { readonly kind: "help" }
    | { readonly kind: "usage"; readonly message: string }
    | { readonly kind: "command"; readonly path: string; readonly flags: Flags }
  );

const MAX_SECONDS = 9_223_372_036;

/** Thrown while the arguments are read. */
class UsageProblem extends Error {}

type ReadFlags = { -readonly [Name in FlagName]?: NonNullable<Flags[Name]> };

const OPTIONS = {
  json: { type: "boolean" },
  quiet: { type: "boolean", short: "q" },
  help: { type: "boolean", short: "h" },
  force: { type: "boolean" },
  tag: { type: "string" },
  timeout: { type: "string" },
  stale: { type: "string" },
} as const;

/** Parses the arguments after the command's name. `allowed` are the flags that this command has. */
export function parseArguments(args: readonly string[], allowed: readonly FlagName[]): Parsed {
  const config = { options: OPTIONS, strict: false, allowPositionals: true, tokens: true } as const;
  const { tokens } = parseArgs({ ...config, args: [...args] });
  const given = tokens.filter((token) => token.kind === "option");
  const isGiven = (flag: string) => given.some(({ name }) => name === flag);
  const output = { isJson: isGiven("json"), isQuiet: isGiven("quiet") };
  if (isGiven("help")) return { ...output, kind: "help" };
  const flags: ReadFlags = {};
  try {
    for (const { name, rawName, value } of given) readFlag(flags, allowed, name, rawName, value);
    const paths = tokens.flatMap((token) => (token.kind === "positional" ? [token.value] : []));
    const [path] = paths;
    if (path === undefined) throw new UsageProblem("PATH is missing");
    if (paths.length > 1) throw new UsageProblem("more than one PATH");
    return { ...output, kind: "command", path, flags };
  } catch (error) {
    if (!(error instanceof UsageProblem)) throw error;
    return { ...output, kind: "usage", message: error.message };
  }
}

/** Adds one flag to those read so far; a repeated flag replaces the earlier one. */
function readFlag(
  flags: ReadFlags,
  allowed: readonly FlagName[],
  name: string,
  rawName: string,
  value: string | undefined,
): void {
  const isKnown = allowed.some((flag) => flag === name) || name === "json" || name === "quiet";
  if (!isKnown) throw new UsageProblem(`unknown flag ${rawName}`);
  const takesValue = OPTIONS[name as keyof typeof OPTIONS].type === "string";
  if (!takesValue && value !== undefined) throw new UsageProblem(`${rawName} takes no value`);
  if (takesValue && value === undefined) throw new UsageProblem(`${rawName} needs a value`);
  if (name === "force") flags.force = true;
  else if (name === "tag") flags.tag = value ?? "";
  else if (name === "timeout") flags.timeout = readSeconds(rawName, value ?? "");
  else if (name === "stale") flags.stale = readStale(rawName, value ?? "");
}

function readSeconds(name: string, text: string): number {
  const seconds = /^[0-9]+(\.[0-9]{1,3})?$/.test(text) ? Number(text) : Number.NaN;
  if (!(seconds <= MAX_SECONDS))
    throw new UsageProblem(`${name} must be seconds from 0 to ${MAX_SECONDS}, with at most three decimals`);
  return seconds;
}

/** Rounded down; less than a second would become 0, which means "never". */
function readStale(name: string, text: string): number {
  const seconds = readSeconds(name, text);
  if (seconds > 0 && seconds < 1) throw new UsageProblem(`${name} must be 0 or at least 1 second`);
  return Math.floor(seconds);
}
