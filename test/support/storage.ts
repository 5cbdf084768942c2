import { mkdtempSync, statfsSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

const MEMORY = "/dev/shm";
const ENOUGH_BYTES = 1_000_000_000;

/** A folder in memory where there is enough, because a test proves nothing by waiting for a disk. */
export function storageRoot(): string {
  return hasMemory() ? MEMORY : tmpdir();
}

/** A new folder for a server's data. */
export function storageFolder(): string {
  return mkdtempSync(join(storageRoot(), "holdfast-test-"));
}

function hasMemory(): boolean {
  try {
    const { bavail, bsize } = statfsSync(MEMORY);
    return bavail * bsize > ENOUGH_BYTES;
  } catch {
    return false;
  }
}
