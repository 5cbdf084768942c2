import { hostname } from "node:os";
import { cleanText, MAX_PID } from "../../core/protocols/lockfile/index.ts";
import { type Acquired, FileLock, type FileLockStatus, type Holder } from "../../lockfile/index.ts";
import { FILE_TAG, FORCE, TIMEOUT } from "../args/flags.ts";
import type { Arguments } from "../args/parse.ts";
import { secondsIn, staleIn } from "../args/values.ts";
import { UsageError } from "../output/errors.ts";
import { printable } from "../output/printable.ts";
import { Printer } from "../output/printer.ts";
import { failureOf, fieldsOf, holderText, type Outcome } from "./outcome.ts";

const OWNER_VARIABLE = "HOLDFAST_OWNER_PID";

/** The process that owns the locks: the calling shell, or the one in the variable. */
function ownerPid(): number {
  const text = process.env[OWNER_VARIABLE];
  if (text === undefined) return process.ppid;
  const pid = /^[0-9]+$/.test(text) ? Number(text) : 0;
  if (pid >= 1 && pid <= MAX_PID) return pid;
  throw new UsageError(`${OWNER_VARIABLE} must be a whole number from 1 to ${MAX_PID}`);
}

/** Performs an operation on a lock file and prints the outcome. Resolves with the exit code. */
export async function perform(operation: OperationName, args: Arguments): Promise<number> {
  const [path = ""] = args.operands;
  const [timeout, tag, force] = [secondsIn(args, TIMEOUT), args.text(FILE_TAG), args.has(FORCE)];
  const printer = new Printer(args.output);
  const onWarning = (message: string) => printer.note(`warning ${message}`);
  const options = { ownerPid: ownerPid(), stale: staleIn(args), tag, onWarning };
  try {
    const lock = new FileLock(path, options);
    const { exitCode, text, json } = await OPERATIONS[operation](lock, path, { timeout, tag, force });
    printer.result(json, [text]);
    return exitCode;
  } catch (error) {
    const { exitCode, text, json } = failureOf(path, error);
    printer.complaint(json, [text]);
    return exitCode;
  }
}

interface Options {
  readonly timeout: number | undefined;
  readonly tag: string | undefined;
  readonly force: boolean;
}

const done = (text: string, json: Outcome["json"]): Outcome => ({ exitCode: 0, text, json });

const OPERATIONS = {
  try: async (lock, path) => acquired(path, await lock.tryAcquire()),
  acquire: async (lock, path, { timeout }) => acquired(path, await lock.acquire({ timeout })),
  release: async (lock, path, { force }) => {
    const result = await lock.release({ force });
    if (!result.released) return done(`free ${printable(path)}`, { path, released: false });
    const { forced, holder } = result;
    const former = forced ? ` (was${holderText(holder)})` : "";
    return done(`released ${printable(path)}${former}`, { path, released: true, forced, ...fieldsOf(holder) });
  },
  refresh: async (lock, path, { tag }) => {
    const { timestamp } = await lock.refresh({ tag });
    return done(`refreshed ${printable(path)}`, { path, timestamp });
  },
  status: async (lock, path) => statusOutcome(path, await lock.status()),
  wait: async (lock, path, { timeout }) => {
    const { waitedMs } = await lock.waitFree({ timeout });
    return done(`free ${printable(path)}`, { path, waited_s: tenths(waitedMs) });
  },
  clean: async (lock, path) => {
    const { isRemoved, leftovers } = await lock.clean();
    const cleaned = isRemoved || leftovers > 0;
    return done(`${cleaned ? "cleaned" : "nothing"} ${printable(path)}`, { path, cleaned, leftovers });
  },
} satisfies Record<string, (lock: FileLock, path: string, options: Options) => Promise<Outcome>>;

export type OperationName = keyof typeof OPERATIONS;

function acquired(path: string, { pid, timestamp, tag, nonce, waitedMs, tookOver }: Acquired): Outcome {
  const fields = { pid, timestamp, tag, nonce, waited_s: tenths(waitedMs), took_over: tookOver };
  return done(`acquired ${printable(path)}`, { path, ...fields });
}

const tenths = (ms: number) => Math.round(ms / 100) / 10;

function statusOutcome(path: string, status: FileLockStatus): Outcome {
  if (status.state === "free") {
    const json = { path, locked: false, state: "free", ...fieldsOf(undefined), stale: false, running: null };
    return done(`free ${printable(path)}`, json);
  }
  const { state, isStale, holder } = status;
  const running = isRunning(holder);
  const json = { path, locked: true, state, ...fieldsOf(holder), stale: isStale, running };
  const lines = [
    `${state} ${printable(path)}`,
    `pid: ${holder.pid ?? "-"}`,
    `timestamp: ${holder.timestamp ?? "-"}`,
    `age: ${holder.age}`,
    `tag: ${printable(holder.tag ?? "-")}`,
    `host: ${printable(holder.host ?? "-")}`,
    `running: ${running === null ? "unknown" : running ? "yes" : "no"}`,
  ];
  return { ...done(lines.join("\n"), json), exitCode: 1 };
}

const MAX_KILLABLE_PID = 2 ** 31 - 1;

/** Whether the holder's process runs; null if unknown. Only shown to people: the protocol does not depend on it. */
function isRunning({ pid, host }: Holder): boolean | null {
  if (pid === null || pid === 0 || (host !== null && host !== cleanText(hostname()))) return null;
  // The system would take a larger number as negative, which addresses a group of processes.
  if (pid > MAX_KILLABLE_PID) return false;
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return (error as { readonly code?: string }).code === "EPERM";
  }
}
