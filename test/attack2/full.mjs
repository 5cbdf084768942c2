/** With a cap on keys, idle keys must make room for new ones, also if fewer may be awake than are listed. */
import { mkdtempSync, rmSync } from "node:fs";
import { open, pause, serve } from "./lib.mjs";

const [build, portText] = process.argv.slice(2);
const dir = mkdtempSync("/tmp/rev2x/full-");
const server = await serve(build, dir, Number(portText), {
  DFLOCKD_GC_MAX_IDLE_S: "5",
  DFLOCKD_GC_INTERVAL_S: "1",
  DFLOCKD_MAX_AWAKE_KEYS: "50",
  DFLOCKD_MAX_LOCKS: "600",
});
const client = await open(server);
let next = 0;
await Promise.all(
  Array.from({ length: 8 }, async () => {
    const c = await open(server);
    while (next < 600) {
      const key = `k-${next++}`;
      await c.ask(`r\n${key}\n${(await c.acquire(key)).split(" ")[1]}\n`);
    }
    c.socket.close();
  }),
);
await pause(25_000);
let refused = 0;
for (let i = 0; i < 300; i++) {
  const answer = await client.acquire(`new-${i}`);
  if (answer.startsWith("ok")) await client.ask(`r\nnew-${i}\n${answer.split(" ")[1]}\n`);
  else refused += 1;
}
console.log(
  refused === 0
    ? "PASS"
    : `FAIL: 600 keys of at most 600 have been idle for 25 s or more (GC_MAX_IDLE_S 5), and ${refused} of 300 new ones were refused`,
);
await server.stop();
rmSync(dir, { recursive: true, force: true });
process.exit(0);
