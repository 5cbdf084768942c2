import { accessSync, closeSync, constants, existsSync, mkdirSync, openSync, statSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { codeOf, Failure, reasonOf } from "../listeners/failure.ts";
import { VOLATILE_STORE } from "./memory.ts";
import { SqliteStore, UnusableStoreError } from "./sqlite.ts";
import type { Store } from "./store.ts";

/** In place of a directory: nothing is kept. */
export const IN_MEMORY = ":memory:";
const FILE = "holdfast.db";
/** What a server that ran workerd has left. */
const EARLIER_LAYOUT = ["objects", "workerd.capnp"];

/**
 * Opens the data directory for this process alone, creating it if need be. Throws a one-line `Failure` that names the
 * directory, or the file that cannot be read.
 */
export function openDataDir(directory: string): Store {
  if (directory === IN_MEMORY) return VOLATILE_STORE;
  prepareDirectory(directory);
  if (EARLIER_LAYOUT.some((name) => existsSync(join(directory, name)))) {
    throw new Failure(
      `data directory ${directory} holds data of an earlier layout, which this version does not read: ` +
        "delete it, or choose another one with --data-dir",
    );
  }
  const path = join(directory, FILE);
  try {
    makeFile(path);
    return SqliteStore.open(path);
  } catch (error) {
    if (error instanceof UnusableStoreError && error.isInUse)
      throw new Failure(`data directory ${directory} is in use by another server`);
    if (error instanceof UnusableStoreError) throw new Failure(`${path} ${error.message}`);
    const isOfSystem = (error as NodeJS.ErrnoException).syscall !== undefined;
    throw new Failure(`cannot open ${path}: ${(isOfSystem ? undefined : whyNot(path)) ?? reasonOf(error)}`);
  }
}

function prepareDirectory(directory: string): void {
  try {
    makeDirectory(resolve(directory));
    accessSync(directory, constants.R_OK | constants.W_OK | constants.X_OK);
  } catch (error) {
    const reason = codeOf(error) === "EEXIST" ? "it is not a directory" : reasonOf(error);
    throw new Failure(`cannot use data directory ${directory}: ${reason}`);
  }
}

/** Step by step: Node's own recursion never ends where the system says "no such file" of a new one, as in /proc (Node 24). */
function makeDirectory(path: string): void {
  if (statSync(path, { throwIfNoEntry: false })?.isDirectory()) return;
  if (!existsSync(dirname(path))) makeDirectory(dirname(path));
  mkdirSync(path, { mode: 0o700 });
}

/** A new file is for this user alone, and so will be SQLite's log: they hold tokens. An existing one is not opened. */
function makeFile(path: string): void {
  try {
    closeSync(openSync(path, "wx", 0o600));
  } catch (error) {
    if (codeOf(error) !== "EEXIST") throw error;
  }
}

/** What keeps SQLite from the file. It must not be opened to find out: closing it would drop a lock on it. */
function whyNot(path: string): string | undefined {
  try {
    if (!statSync(path).isFile()) return "it is not a file";
    accessSync(path, constants.R_OK | constants.W_OK);
    return undefined;
  } catch (error) {
    return reasonOf(error);
  }
}
