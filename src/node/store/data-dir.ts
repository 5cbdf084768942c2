import { accessSync, constants, existsSync, mkdirSync, statSync } from "node:fs";
import { dirname, join } from "node:path";
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
  makeDirectory(directory);
  if (EARLIER_LAYOUT.some((name) => existsSync(join(directory, name)))) {
    throw new Failure(
      `data directory ${directory} holds data of an earlier layout, which this version does not read: ` +
        "delete it, or choose another one with --data-dir",
    );
  }
  const path = join(directory, FILE);
  try {
    return SqliteStore.open(path);
  } catch (error) {
    if (error instanceof UnusableStoreError && error.isInUse)
      throw new Failure(`data directory ${directory} is in use by another server`);
    if (error instanceof UnusableStoreError) throw new Failure(`${path} ${error.message}`);
    throw new Failure(`cannot open ${path}: ${whyNot(path) ?? reasonOf(error)}`);
  }
}

function makeDirectory(directory: string): void {
  try {
    mkdirSync(directory, { recursive: true, mode: 0o700 });
    accessSync(directory, constants.R_OK | constants.W_OK | constants.X_OK);
  } catch (error) {
    const reason = codeOf(error) === "EEXIST" ? "it is not a directory" : reasonOf(error);
    throw new Failure(`cannot use data directory ${directory}: ${reason}`);
  }
}

/** What keeps this process from the file. It must not be opened to find out: closing it would drop SQLite's lock. */
function whyNot(path: string): string | undefined {
  try {
    if (!existsSync(path)) accessSync(dirname(path), constants.W_OK);
    else if (!statSync(path).isFile()) return "it is not a file";
    else accessSync(path, constants.R_OK | constants.W_OK);
    return undefined;
  } catch (error) {
    return reasonOf(error);
  }
}
