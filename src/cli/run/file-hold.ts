import { FileLock, FileLockError, NotOwnerError, TimeoutError } from "../../lockfile/index.ts";
import { holderText } from "../file/outcome.ts";
import { CommandError } from "../output/errors.ts";
import type { Hold } from "./hold.ts";
import type { Attempt } from "./plan.ts";
import { Refresher } from "./refresher.ts";

export interface WantedFile {
  readonly path: string;
  readonly staleSeconds: number;
  readonly tag: string | undefined;
}

/** A lost lock becomes stale soon: try to release its file, but do not delay the end of the command for it. */
const LOST_RELEASE_S = 1;

/** Holds a lock file for this process, and refreshes it. If the process is killed, the file becomes stale. */
export async function holdFile({ path, staleSeconds, tag }: WantedFile, attempt: Attempt): Promise<Hold> {
  const { signal, timeoutMs } = attempt;
  const lock = new FileLock(path, { stale: staleSeconds, ...(tag === undefined ? {} : { tag }) });
  try {
    await lock.acquire({ signal, timeout: timeoutMs === undefined ? undefined : timeoutMs / 1000 });
  } catch (error) {
    throw explained(path, error);
  }
  const refresher = new Refresher((timeout) => refreshOf(lock, timeout), staleSeconds);
  return {
    variables: { HOLDFAST_FILE: path },
    lost: refresher.lost.then((reason) => `lost ${path}: ${reason}`),
    release: async () => {
      await refresher.stop();
      return complaintOf(lock, path, refresher.isLost);
    },
  };
}

async function refreshOf(lock: FileLock, timeout: number) {
  try {
    await lock.refresh({ timeout });
    return { type: "done" } as const;
  } catch (error) {
    if (!(error instanceof NotOwnerError)) return { type: "failed", reason: String((error as Error).message) } as const;
    return {
      type: "lost",
      reason: error.holder ? `now held by${holderText(error.holder)}` : "its file is gone",
    } as const;
  }
}

async function complaintOf(lock: FileLock, path: string, isLost: boolean): Promise<string | undefined> {
  try {
    const { released } = await lock.release(isLost ? { timeout: LOST_RELEASE_S } : {});
    return released || isLost ? undefined : `${path} was already gone when the command ended`;
  } catch (error) {
    if (isLost && error instanceof NotOwnerError) return undefined;
    return `${path} was not released: ${(error as Error).message}`;
  }
}

function explained(path: string, error: unknown): unknown {
  if (error instanceof TimeoutError) {
    return new CommandError("busy", `busy ${path}${holderText(error.holder)}`, { isReport: true, cause: error });
  }
  if (error instanceof FileLockError) {
    const code = error.kind === "path" ? "path" : "io";
    return new CommandError(code, `error ${path}: ${error.message}`, { isReport: true, cause: error });
  }
  return error;
}
