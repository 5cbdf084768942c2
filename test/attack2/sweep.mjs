/** (d) A session that is awake and has stored nothing yet must not lose its file: what it stores later must last. */
import { execSync } from "node:child_process";
import { mkdtempSync, readdirSync, rmSync } from "node:fs";
import { open, pause, serve } from "./lib.mjs";

const [build, portText] = process.argv.slice(2);
const dir = mkdtempSync("/tmp/rev2x/sweep-");
const env = { DFLOCKD_RESUME_GRACE_S: "30" };
let server = await serve(build, dir, Number(portText), env);
const folder = `${dir}/objects/holdfast-SessionObject`;
const clients = [];
for (let i = 0; i < 40; i++) clients.push(await open(server));
const gaps = clients.map((_, i) => 200 + i * 450);
let isOn = true;
const tokens = [];
const loops = clients.map(async (client, i) => {
  for (let n = 0; isOn; n++) {
    if (i % 2) await client.ask("ping\n_\n_\n");
    else {
      const line = await client.acquire(`s-${i}-${n}`);
      await client.ask(`r\ns-${i}-${n}\n${line.split(" ")[1]}\n`);
    }
    await pause(gaps[i]);
  }
});
for (let t = 0; t < 36; t += 6) {
  await pause(6_000);
  const names = readdirSync(folder);
  console.log(
    t + 6,
    "s:",
    names.filter((n) => n.endsWith(".sqlite")).length,
    "files,",
    names.filter((n) => n.endsWith("-wal")).length,
    "logs,",
    names.filter((n) => n.endsWith(".swept")).length,
    "aside",
  );
}
isOn = false;
await Promise.all(loops);
const credentials = await Promise.all(clients.map(async (c) => (await c.ask("session\n_\nresume\n")).split(" ")[1]));
for (const [i, c] of clients.entries()) tokens[i] = (await c.acquire(`last-${i}`, 0, 60)).split(" ")[1];
process.kill(Number(execSync(`cat ${dir}/workerd.pid`).toString()), "SIGKILL");
await server.stop("SIGKILL");
server = await serve(build, dir, Number(portText), env);
let gone = 0;
for (const [i, credential] of credentials.entries()) {
  const c = await open(server, ["dflockd.v2", `holdfast.resume.${credential}`]).catch(() => undefined);
  const line = c && (await c.ask(`n\nlast-${i}\n${tokens[i]} 60\n`).catch(() => undefined));
  if (!line?.startsWith("ok")) {
    gone += 1;
    console.log("client", i, "with a gap of", gaps[i], "ms: session gone", c?.closed, line);
  }
}
console.log(
  gone === 0 ? "PASS" : `FAIL: ${gone} sessions gone`,
  readdirSync(folder).filter((n) => n.endsWith(".swept")).length,
  "aside",
  server.lines.join("").slice(0, 300),
);
await server.stop();
rmSync(dir, { recursive: true, force: true });
process.exit(0);
