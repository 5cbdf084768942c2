import { execFileSync } from "node:child_process";
import { existsSync, mkdirSync, readFileSync, realpathSync, rmSync, statSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { codeOf, Failure, reasonOf } from "./failure.ts";
import { sweepEmptyDatabases } from "./sweep.ts";
import { NAMESPACES } from "./workerd-config.ts";

/** One name however the directory is reached: it tells a leftover workerd from other processes. */
export const workerdConfigFile = (dataDir: string) => join(realpathSync(dataDir), "workerd.capnp");
export const objectsDir = (dataDir: string) => resolve(dataDir, "objects");
export const pidFile = (dataDir: string) => join(dataDir, "workerd.pid");

export interface OpenDataDir {
  /** Gives the directory back after an orderly stop. */
  close(): void;
}

/**
 * Makes this process the only server on the directory, for as long as it lives. A workerd left behind by a killed
 * predecessor is ended first, so two authorities for one key never run at the same time.
 */
export async function openDataDir(dataDir: string): Promise<OpenDataDir> {
  try {
    makeDirectory(dataDir);
  } catch (error) {
    const reason = codeOf(error) === "EEXIST" ? "it is not a directory" : reasonOf(error);
    throw new Failure(`cannot use data directory ${dataDir}: ${reason}`);
  }
  const unlock = await lock(dataDir);
  await endLeftover(dataDir);
  // Nobody has the databases open now, so those of forgotten keys can go as well.
  for (const kind of Object.values(NAMESPACES)) {
    sweepEmptyDatabases(databasesOf(dataDir, kind), { olderThanMs: 0, budgetMs: 1_000 });
  }
  // While the server runs only sessions are swept: an ended session never stores anything again, a key may at any time.
  const sweeping = setInterval(() => {
    for (const kind of [NAMESPACES.SESSION, NAMESPACES.HTTP_SESSION]) {
      sweepEmptyDatabases(databasesOf(dataDir, kind), { olderThanMs: SWEEP_EVERY_MS, budgetMs: 1_000 });
    }
  }, SWEEP_EVERY_MS);
  sweeping.unref();
  return {
    close() {
      clearInterval(sweeping);
      rmSync(pidFile(dataDir), { force: true });
      unlock();
    },
  };
}

const SWEEP_EVERY_MS = 300_000;

const databasesOf = (dataDir: string, kind: string) => join(objectsDir(dataDir), `holdfast-${kind}`);

/** Like `mkdir -p`. Node's own never returns where the file system refuses to have directories, as in /proc (Node 24). */
function makeDirectory(path: string): void {
  const full = resolve(path);
  if (statSync(full, { throwIfNoEntry: false })?.isDirectory()) return;
  if (!existsSync(dirname(full))) makeDirectory(dirname(full));
  mkdirSync(full, { mode: 0o700 });
}

const SQLITE_BUSY = 5;

/** Takes a lock that the kernel drops when this process dies. SQLite's file lock is the only such lock Node offers. */
async function lock(dataDir: string): Promise<() => void> {
  const { DatabaseSync } = await import("node:sqlite").catch(() => {
    throw new Failure(
      `Node ${process.versions.node} is too old: holdfast serve needs Node 24, which npm start brings along`,
    );
  });
  try {
    const database = new DatabaseSync(join(dataDir, "serve.lock"));
    database.exec("PRAGMA busy_timeout = 0; PRAGMA locking_mode = EXCLUSIVE; BEGIN EXCLUSIVE");
    return () => database.close();
  } catch (error) {
    if ((error as { errcode?: number }).errcode === SQLITE_BUSY) {
      throw new Failure(`data directory ${dataDir} is in use by another holdfast`);
    }
    throw new Failure(`cannot use data directory ${dataDir}: ${reasonOf(error)}`);
  }
}

const LEFTOVER_LIMIT_MS = 5_000;

async function endLeftover(dataDir: string): Promise<void> {
  const pid = recordedPid(dataDir);
  const isOurs = () => pid !== undefined && commandOf(pid).includes(workerdConfigFile(dataDir));
  if (pid === undefined || !isOurs()) return;
  const deadline = Date.now() + LEFTOVER_LIMIT_MS;
  while (isOurs()) {
    if (Date.now() > deadline) throw new Failure(`process ${pid} still uses data directory ${dataDir}`);
    try {
      process.kill(pid, "SIGKILL");
    } catch (error) {
      if (codeOf(error) === "EPERM") {
        throw new Failure(`process ${pid} of another user still uses data directory ${dataDir}`);
      }
    }
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
}

function recordedPid(dataDir: string): number | undefined {
  try {
    const pid = Number(readFileSync(pidFile(dataDir), "utf8"));
    return Number.isInteger(pid) && pid > 1 ? pid : undefined;
  } catch {
    return undefined;
  }
}

/** The command line of a running process; empty when there is none, or only its remains. */
function commandOf(pid: number): string {
  try {
    if (process.platform === "linux") return readFileSync(`/proc/${pid}/cmdline`, "utf8");
    return execFileSync("ps", ["-p", String(pid), "-o", "command="], { encoding: "utf8", stdio: "pipe" });
  } catch {
    return "";
  }
}
