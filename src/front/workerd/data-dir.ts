import { execFileSync } from "node:child_process";
import {
  accessSync,
  closeSync,
  constants,
  existsSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  readSync,
  realpathSync,
  rmSync,
  statSync,
} from "node:fs";
import { dirname, join, resolve } from "node:path";
import { codeOf, Failure, reasonOf } from "../../node/listeners/failure.ts";
import { type Listen, NAMESPACES } from "./config.ts";
import { holdAlive, isAlive, type SocketPaths, socketPathsOf } from "./socket-paths.ts";
import { sweepEmptyDatabases, sweepWhileInUse } from "./sweep.ts";

/** The real path, the same however the directory is reached: it identifies a leftover workerd among other processes. */
export const workerdConfigFile = (dataDir: string) => join(realpathSync(dataDir), "workerd.capnp");
export const objectsDir = (dataDir: string) => resolve(dataDir, "objects");
export const pidFile = (dataDir: string) => join(dataDir, "workerd.pid");

export interface OpenDataDir {
  /** Where workerd is to listen. */
  readonly workerd: Listen;
  /** A descriptor that keeps every other server off the directory as long as any process that inherited it lives. */
  readonly lock: number;
  /** Releases the directory after an orderly stop. */
  close(): void;
}

/**
 * Makes this process the only server on the directory, for as long as it or a workerd that it started lives. A workerd
 * left behind by a killed predecessor is ended first, so two authorities for one key never run at the same time.
 */
export async function openDataDir(dataDir: string): Promise<OpenDataDir> {
  try {
    makeDirectory(dataDir);
  } catch (error) {
    const reason = codeOf(error) === "EEXIST" ? "it is not a directory" : reasonOf(error);
    throw new Failure(`cannot use data directory ${dataDir}: ${reason}`);
  }
  checkFiles(dataDir);
  const unlock = await lock(dataDir);
  const paths = socketPathsOf(dataDir);
  try {
    await endLeftover(dataDir, paths);
    const alive = await holdAlive(paths);
    // No process has the databases open now, so those of pruned keys can be removed as well.
    for (const kind of Object.values(NAMESPACES)) {
      sweepEmptyDatabases(databasesOf(dataDir, kind), { olderThanMs: 0, budgetMs: 1_000 });
    }
    const sweeping = sweepWhileRunning(dataDir);
    return {
      workerd: alive.workerd,
      lock: alive.fd,
      close() {
        clearInterval(sweeping);
        alive.close();
        rmSync(pidFile(dataDir), { force: true });
        rmSync(paths.workerd, { force: true });
        paths.forget();
        unlock();
      },
    };
  } catch (error) {
    paths.forget();
    unlock();
    throw error;
  }
}

/** While the server runs, only sessions are swept: an ended session stores nothing again, a key may at any time. */
function sweepWhileRunning(dataDir: string): NodeJS.Timeout {
  const sweeping = setInterval(() => {
    for (const kind of [NAMESPACES.SESSION, NAMESPACES.HTTP_SESSION]) {
      void sweepWhileInUse(databasesOf(dataDir, kind), IN_USE);
    }
  }, SWEEP_EVERY_MS);
  sweeping.unref();
  return sweeping;
}

/** Every connection leaves a file, so there may be hundreds a second. */
const SWEEP_EVERY_MS = 10_000;
/** workerd creates the log within a millisecond or two of opening a database, if the machine lets it. */
const IN_USE = { olderThanMs: SWEEP_EVERY_MS, budgetMs: 100, opensWithinMs: 2_000 };

const databasesOf = (dataDir: string, kind: string) => join(objectsDir(dataDir), `holdfast-${kind}`);

/** Like `mkdir -p`. Node's own hangs if the file system does not allow directories, as in /proc (Node 24). */
function makeDirectory(path: string): void {
  const full = resolve(path);
  if (statSync(full, { throwIfNoEntry: false })?.isDirectory()) return;
  if (!existsSync(dirname(full))) makeDirectory(dirname(full));
  mkdirSync(full, { mode: 0o700 });
}

/** Names files that would keep workerd from starting: workerd does not. Databases in use are only read. */
function checkFiles(dataDir: string): void {
  for (const name of ["serve.lock", "workerd.pid", "workerd.capnp"]) check(join(dataDir, name), "file");
  const objects = objectsDir(dataDir);
  if (!check(objects, "directory")) return;
  for (const kind of readdirSync(objects).filter((name) => name.startsWith("holdfast-"))) {
    if (!check(join(objects, kind), "directory")) continue;
    const metadata = join(objects, kind, "metadata.sqlite");
    if (check(metadata, "file") && !isDatabase(metadata)) {
      throw new Failure(`cannot use ${metadata}: it is not an SQLite database`);
    }
  }
}

/** Whether there is such a file or directory; throws a `Failure` if it is of another kind or not accessible. */
function check(path: string, kind: "file" | "directory"): boolean {
  const mode = constants.R_OK | constants.W_OK | (kind === "directory" ? constants.X_OK : 0);
  try {
    const stats = statSync(path, { throwIfNoEntry: false });
    if (!stats) return false;
    if (stats.isDirectory() === (kind === "file")) throw new Error(`it is ${kind === "file" ? "" : "not "}a directory`);
    accessSync(path, mode);
    return true;
  } catch (error) {
    throw new Failure(`cannot use ${path}: ${reasonOf(error)}`);
  }
}

const SQLITE_HEADER = "SQLite format 3\0";

/** An empty file counts: it becomes a database on first use. */
function isDatabase(path: string): boolean {
  const header = Buffer.alloc(SQLITE_HEADER.length);
  const file = openSync(path, "r");
  try {
    return readSync(file, header) === 0 || header.toString("latin1") === SQLITE_HEADER;
  } finally {
    closeSync(file);
  }
}

const SQLITE_BUSY = 5;

/**
 * Takes a lock that the kernel drops when this process dies, so that only one launcher runs at a time. SQLite's file
 * lock is the only such lock Node offers; child processes cannot inherit it, which is why there is a socket as well.
 */
async function lock(dataDir: string): Promise<() => void> {
  const { DatabaseSync } = await import("node:sqlite").catch(() => {
    throw new Failure(
      `holdfast serve needs Node 22.13 or newer, and this is Node ${process.versions.node}: install a newer one, or run ` +
        "`npx --package=node@24 --package=holdfast -- holdfast serve`; in a checkout `npm start` brings its own",
    );
  });
  const path = join(dataDir, "serve.lock");
  try {
    const database = new DatabaseSync(path);
    database.exec("PRAGMA busy_timeout = 0; PRAGMA locking_mode = EXCLUSIVE; BEGIN EXCLUSIVE");
    return () => database.close();
  } catch (error) {
    if ((error as { errcode?: number }).errcode === SQLITE_BUSY) {
      throw new Failure(`data directory ${dataDir} is in use by another holdfast`);
    }
    throw new Failure(`cannot use ${path}: ${reasonOf(error)}`);
  }
}

const LEFTOVER_LIMIT_MS = 5_000;

/** Ends the workerd of a killed launcher. It holds the directory as long as it lives, so nothing may start before. */
async function endLeftover(dataDir: string, paths: SocketPaths): Promise<void> {
  const deadline = Date.now() + LEFTOVER_LIMIT_MS;
  while (await isAlive(paths)) {
    const pid = recordedPid(dataDir);
    const isOurs = pid !== undefined && commandOf(pid).includes(workerdConfigFile(dataDir));
    if (Date.now() > deadline) {
      throw new Failure(`${isOurs ? `process ${pid}` : "another process"} still uses data directory ${dataDir}`);
    }
    // Without a recorded id, its launcher died before learning it; its guard ends it.
    if (isOurs) killLeftover(pid, dataDir);
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
}

function killLeftover(pid: number, dataDir: string): void {
  try {
    process.kill(pid, "SIGKILL");
  } catch (error) {
    if (codeOf(error) === "EPERM") {
      throw new Failure(`process ${pid} of another user still uses data directory ${dataDir}`);
    }
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

/** The command line of a running process; empty if there is none, or it is a zombie. */
function commandOf(pid: number): string {
  try {
    if (process.platform === "linux") return readFileSync(`/proc/${pid}/cmdline`, "utf8");
    return execFileSync("ps", ["-p", String(pid), "-o", "command="], { encoding: "utf8", stdio: "pipe" });
  } catch {
    return "";
  }
}
