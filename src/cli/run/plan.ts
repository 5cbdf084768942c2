import { compareKeys } from "../../client/wire.ts";
import { FILE, KEY, LEASE, LIMIT, QUIET, TAG, TIMEOUT } from "../args/flags.ts";
import type { Arguments } from "../args/parse.ts";
import { countIn, keysIn, leaseIn, onLostIn, secondsIn, staleIn } from "../args/values.ts";
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
  const path = args.text(FILE);
  if (!args.has(KEY) && path === undefined) throw new UsageError("--key or --file is missing: say what to hold");
  const timeout = secondsIn(args, TIMEOUT);
  const takes: Plan["takes"][number][] = [];
  const staleSeconds = staleIn(args) ?? DEFAULT_STALE_SECONDS;
  const onLost = onLostIn(args);
  if (path !== undefined) takes.push(await fileTake(path, staleSeconds, args.text(TAG)));
  takes.push(...(await keyTakes(args, env)));
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

/**
 * The keys in the order of their bytes, in which all clients take several: so no two wait for each other. Validates the
 * flags for keys even without `--key`: a bad number is always an error.
 */
async function keyTakes(args: Arguments, env: Environment): Promise<Plan["takes"]> {
  const limit = countIn(args, LIMIT) ?? 1;
  const leaseSeconds = leaseIn(args, LEASE);
  const keys = keysIn(args, KEY);
  if (keys.length === 0) return [];
  const wanted = { limit, leaseSeconds, label: labelOf(args.text(TAG)) };
  const target = await targetOf(args, env);
  const showsPlace = process.stderr.isTTY === true && !args.has(QUIET);
  const { holdKey } = await import("./key-hold.ts");
  const takeOf =
    (key: string) =>
    async ({ signal, timeoutMs }: Attempt) => ({
      ...(await holdKey(target, { ...wanted, key, timeoutMs }, { signal, showsPlace })),
      place: keys.indexOf(key),
    });
  return keys.toSorted(compareKeys).map(takeOf);
}
