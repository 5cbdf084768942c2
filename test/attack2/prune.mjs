/** Idle keys must be pruned also if more are due than may be awake (MAX_AWAKE_KEYS, or what the open files allow). */
import { execSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { open, pause, serve } from "./lib.mjs";

const [build, portText, keysText = "2000", awake = "100", seconds = "70", gc = "5"] = process.argv.slice(2);
const dir = mkdtempSync("/tmp/rev2x/prune-");
const variables = {
  DFLOCKD_GC_MAX_IDLE_S: gc,
  DFLOCKD_GC_INTERVAL_S: "1",
  ...(awake !== "0" && { DFLOCKD_MAX_AWAKE_KEYS: awake }),
};
const server = await serve(build, dir, Number(portText), variables);
const begun = Date.now();
let next = 0;
await Promise.all(
  Array.from({ length: 16 }, async () => {
    const client = await open(server);
    while (next < Number(keysText)) {
      const key = `k-${next++}`;
      await client.ask(`r\n${key}\n${(await client.acquire(key)).split(" ")[1]}\n`);
    }
    client.socket.close();
  }),
);
console.log(`${next} keys used in ${Date.now() - begun} ms, at most ${awake} awake`);
const metric = async (name) =>
  Number(
    new RegExp(`^dflockd_${name} (\\d+)`, "m").exec(await (await fetch(`http://${server.url}/metrics`)).text())?.[1] ??
      Number.NaN,
  );
const cpu = () => Number(execSync(`awk '{print $14+$15}' /proc/$(cat ${dir}/workerd.pid)/stat`).toString());
let left = Number.NaN;
for (let t = 0; t < Number(seconds); t += 10) {
  const before = cpu();
  await pause(10_000);
  left = await metric("keys");
  console.log(
    `${t + 10} s after: ${left} keys listed, ${await metric("keys_pruned_total")} pruned, cpu ${(cpu() - before) / 10} %`,
  );
  if (left === 0) break;
}
console.log(
  left === 0 ? "PASS" : "FAIL: idle keys stay",
  "|",
  [
    ...new Set(
      server.lines
        .join("")
        .match(/"event":"[a-z_]+","key":"k-\d+","error":"[^"]*/g)
        ?.map((l) => l.replace(/k-\d+/, "k")),
    ),
  ].slice(0, 5),
);
await server.stop();
rmSync(dir, { recursive: true, force: true });
process.exit(left === 0 ? 0 : 1);
