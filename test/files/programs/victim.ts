/** Takes over, refreshes and releases the lock at a path until it is killed. */
import { renameSync, writeFileSync } from "node:fs";
import { FileLock } from "../../../src/lockfile/index.ts";

const [path = ""] = process.argv.slice(2);
const lock = new FileLock(path);
process.stdout.write("ready\n");
for (let time = 0; ; time += 1) {
  if (time % 3 > 0) {
    // Complete at once, as another program's lock is.
    writeFileSync(`${path}.aside`, "pid=1\ntimestamp=1\n");
    renameSync(`${path}.aside`, path);
  }
  await lock.acquire();
  await lock.refresh();
  await lock.release();
}
