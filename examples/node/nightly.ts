/**
 * A job that many machines start at the same time, by cron, and one of them does:
 *
 *     node_modules/.bin/node examples/node/nightly.ts http://127.0.0.1:6389
 *
 * `await using` needs Node 24, which is the one in that command, or TypeScript.
 */
import { setTimeout as pause } from "node:timers/promises";
import { connect, LockLostError } from "holdfast-client";

const [url = "http://127.0.0.1:6389"] = process.argv.slice(2);
await using locks = connect(url, { label: `nightly-${process.pid}` });
await using lock = await locks.tryAcquire("nightly", { maxHold: 60 * 60_000 });
if (!lock) console.log("somebody else does it");
else {
  try {
    console.log(`started with fence ${lock.fence}`);
    for (let page = 1; page <= 5; page += 1) {
      // Whatever takes time stops when the lock is lost; whatever writes shows the fence.
      await pause(200, undefined, { signal: lock.signal });
    }
    console.log("done");
  } catch (error) {
    const { reason } = lock.signal;
    if (!(reason instanceof LockLostError)) throw error;
    console.log(`stopped: ${reason.message}`);
    process.exitCode = 1;
  }
}
