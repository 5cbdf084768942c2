import { hostname } from "node:os";
import { cleanText, MAX_PID } from "../../core/protocols/lockfile/index.ts";
import {
  type Acquired,
  FileLock,
  type FileLockOptions,
  type FileLockStatus,
  type Holder,
} from "../../lockfile/index.ts";
import type { Flags } from "./flags.ts";
import { done, fieldsOf, inWords, type Outcome, outcomeOf, printable } from "./outcome.ts";
import type { CommandName } from "./usage.ts";

const OWNER_VARIABLE = "HOLDFAST_OWNER_PID";

/** The process that owns the locks: the calling shell, or the variable's value. Undefined if that is no process id. */
export function readOwnerPid(env: Readonly<Record<string, string | undefined>>): number | undefined {
  const text = env[OWNER_VARIABLE];
  if (text === undefined) return process.ppid;
  const pid = /^[0-9]+$/.test(text) ? Number(text) : 0;
  return pid >= 1 && pid <= MAX_PID ? pid : undefined;
}

export const BAD_OWNER_PID = `${OWNER_VARIABLE} must be a whole number from 1 to ${MAX_PID}`;

export interface Request {
  readonly command: CommandName;
  readonly path: string;
  readonly flags: Flags;
  readonly ownerPid: number;
  readonly warn: (message: string) => void;
}

/** Performs a command. Never throws: failures are outcomes too. */
export async function perform(request: Request): Promise<Outcome> {
  const { command, path, flags, ownerPid, warn } = request;
  const options: FileLockOptions = {
    ownerPid,
    stale: flags.stale,
    tag: flags.tag,
    onWarning: warn,
  };
  try {
    return await OPERATIONS[command](new FileLock(path, options), path, flags);
  } catch (error) {
    return outcomeOf(path, error);
  }
}

type Operation = (lock: FileLock, path: string, flags: Flags) => Promise<Outcome>;

const OPERATIONS: Readonly<Record<CommandName, Operation>> = {
  try: async (lock, path) => acquired(path, await lock.tryAcquire()),
  acquire: async (lock, path, { timeout }) => acquired(path, await lock.acquire({ timeout })),
  release: async (lock, path, { force = false }) => {
    const result = await lock.release({ force });
    if (!result.released) return done(`free ${printable(path)}`, { path, released: false });
    const { forced, holder } = result;
    const former = forced ? ` (was${inWords(holder)})` : "";
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
};

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
