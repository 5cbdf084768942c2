/** (a) A client's locks are released when it goes, after a sleep, after its file was swept. */
import { execSync } from "node:child_process";
import { mkdtempSync, readdirSync, rmSync } from "node:fs";
import { open, pause, serve } from "./lib.mjs";

const [build, portText] = process.argv.slice(2);
const dir = mkdtempSync("/tmp/rev2x/rel-");
const server = await serve(build, dir, Number(portText), {});
const files = () => readdirSync(`${dir}/objects/holdfast-SessionObject`).filter((n) => /^[0-9a-f]{64}/.test(n)).length;
for (const [count, sleep, how] of [
  [20, 0, "terminate"],
  [20, 30, "terminate"],
  [20, 100, "close"],
  [700, 20, "terminate"],
  [700, 100, "close"],
]) {
  const client = await open(server);
  const keys = Array.from({ length: count }, (_, i) => `r-${count}-${sleep}-${how}-${i}`);
  for (const key of keys) if (!(await client.acquire(key, 0, 3600)).startsWith("ok")) throw new Error("not granted");
  await pause(sleep * 1000);
  const during = files();
  client.socket[how]();
  await pause(6_000);
  const check = await open(server);
  let kept = 0;
  for (const key of keys) if (!(await check.acquire(key, 0, 1)).startsWith("ok")) kept += 1;
  check.socket.close();
  console.log(
    count,
    "keys,",
    sleep,
    "s asleep,",
    how,
    "| files while asleep",
    during,
    "|",
    kept === 0 ? "PASS" : `FAIL: ${kept} still held`,
  );
}
console.log(server.lines.join("").slice(0, 600));
await server.stop();
rmSync(dir, { recursive: true, force: true });
process.exit(0);
