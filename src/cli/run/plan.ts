import { FILE, KEY, LEASE, LIMIT, QUIET, TAG, TIMEOUT } from "../args/flags.ts";
import type { Arguments } from "../args/parse.ts";
import { countIn, keyIn, leaseIn, onLostIn, secondsIn, staleIn } from "../args/values.ts";
import { UsageError } from "../output/errors.ts";
import { labelOf } from "../service/label.ts";
import { type Environment, targetOf } from "../service/target.ts";
import type { Hold } from "./hold.ts";

const DEFAULT_STALE_SECONDS = 3_600;

export interface Attempt {
  readonly signal: AbortSignal;
  /** Undefined means no limit, 0 means one attempt. */
  readonly timeoutMs: number | undefined;
}

/** What to hold, in order, and how long to wait for all of it. */
export interface Plan {
  readonly takes: readonly ((attempt: Attempt) => Promise<Hold>)[];
  readonly timeoutMs: number | undefined;
  readonly onLost: "kill" | "warn";
}

/** Reads the flags of `run`. Throws a `UsageError` before anything is done. Only what is needed is loaded. */
export async function planOf(args: Arguments, env: Environment): Promise<Plan> {
  const [key, path] = [args.text(KEY), args.text(FILE)];
  if (key === undefined && path === undefined) throw new UsageError("--key or --file is missing: say what to hold");
  const timeout = secondsIn(args, TIMEOUT);
  const takes: Plan["takes"][number][] = [];
  const staleSeconds = staleIn(args) ?? DEFAULT_STALE_SECONDS;
  const onLost = onLostIn(args);
  if (path !== undefined) takes.push(await fileTake(path, staleSeconds, args.text(TAG)));
  const keyed = await keyTake(key, args, env);
  if (keyed) takes.push(keyed);
  return {
    takes,
    timeoutMs: timeout === undefined ? undefined : timeout * 1000,
    onLost,
  };
}

async function fileTake(path: string, staleSeconds: number, tag: string | undefined): Promise<Plan["takes"][number]> {
  const { holdFile } = await import("./file-hold.ts");
  return (attempt) => holdFile({ path, staleSeconds, tag }, attempt);
}

/** Validates the flags for keys even without `--key`: a bad number is always an error. */
async function keyTake(key: string | undefined, args: Arguments, env: Environment) {
  const limit = countIn(args, LIMIT) ?? 1;
  const leaseSeconds = leaseIn(args, LEASE);
  if (key === undefined) return undefined;
  const wanted = { key: keyIn(key, KEY.name), limit, leaseSeconds, label: labelOf(args.text(TAG)) };
  const target = await targetOf(args, env);
  const showsPlace = process.stderr.isTTY === true && !args.has(QUIET);
  const { holdKey } = await import("./key-hold.ts");
  return ({ signal, timeoutMs }: Attempt) => holdKey(target, { ...wanted, timeoutMs }, { signal, showsPlace });
}
