/** The flags of `holdfast file`, as they were given. Every command has `--json`, `--quiet` and `--help`. */
export interface Flags {
  readonly stale?: number;
  readonly timeout?: number;
  readonly tag?: string;
  readonly force?: boolean;
}

export type FlagName = keyof Flags;

/** How the result is printed, whatever else is wrong with the arguments. */
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

/** Reads the arguments behind the command's name. `allowed` are the flags that this command has. */
export function parseArguments(args: readonly string[], allowed: readonly FlagName[]): Parsed {
  const output = { isJson: false, isQuiet: false };
  const paths: string[] = [];
  const flags: { -readonly [Name in FlagName]?: NonNullable<Flags[Name]> } = {};
  let isHelp = false;
  let problem: string | undefined;
  for (let index = 0; index < args.length; index += 1) {
    const arg = args[index] ?? "";
    if (arg === "--") {
      paths.push(...args.slice(index + 1));
      break;
    }
    if (!arg.startsWith("-") || arg === "-") {
      paths.push(arg);
      continue;
    }
    const split = arg.indexOf("=");
    const name = split < 0 ? arg : arg.slice(0, split);
    const value = split < 0 ? undefined : arg.slice(split + 1);
    const isKnown = (flag: FlagName) => name === `--${flag}` && allowed.includes(flag);
    const takeValue = () => value ?? requireValue(name, args[++index]);
    try {
      if (name === "--json") output.isJson = isSwitch(name, value);
      else if (name === "--quiet" || name === "-q") output.isQuiet = isSwitch(name, value);
      else if (name === "--help" || name === "-h") isHelp = isSwitch(name, value);
      else if (isKnown("force")) flags.force = isSwitch(name, value);
      else if (isKnown("tag")) flags.tag = takeValue();
      else if (isKnown("timeout")) flags.timeout = readSeconds(name, takeValue());
      else if (isKnown("stale")) flags.stale = readStale(name, takeValue());
      else throw new UsageProblem(`unknown flag ${name}`);
    } catch (error) {
      if (!(error instanceof UsageProblem)) throw error;
      problem ??= error.message;
    }
  }
  if (isHelp) return { ...output, kind: "help" };
  const [path] = paths;
  if (paths.length > 1) problem ??= "more than one PATH";
  if (path === undefined) problem ??= "PATH is missing";
  if (problem !== undefined || path === undefined) return { ...output, kind: "usage", message: problem ?? "" };
  return { ...output, kind: "command", path, flags };
}

function isSwitch(name: string, value: string | undefined): true {
  if (value !== undefined) throw new UsageProblem(`${name} takes no value`);
  return true;
}

function requireValue(name: string, next: string | undefined): string {
  if (next === undefined) throw new UsageProblem(`${name} needs a value`);
  return next;
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
