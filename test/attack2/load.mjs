/** (e) 20,000 fresh keys beside a bystander; (f) a restart with 20,000 listed keys. */
import { execSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { bystander, open, pause, serve } from "./lib.mjs";

const [build, portText, countText = "20000"] = process.argv.slice(2);
const port = Number(portText);
const count = Number(countText);
const dir = mkdtempSync("/tmp/rev2x/load-");
const gc = { DFLOCKD_GC_MAX_IDLE_S: "15", DFLOCKD_GC_INTERVAL_S: "5" };
const say = (...words) => console.log(new Date().toISOString().slice(11, 19), ...words);
let server = await serve(build, dir, port, gc);
let by = await bystander(server, "bystander");
const work = async (release, prefix, seconds) => {
  let next = 0,
    bad = 0;
  const begun = Date.now();
  const crew = Array.from({ length: 16 }, async () => {
    const client = await open(server);
    while (next < count && Date.now() - begun < seconds * 1000) {
      const key = `${prefix}-${next++}`;
      const line = await client.acquire(key, 0, 3600);
      if (!line.startsWith("ok")) bad += 1;
      else if (release) await client.ask(`r\n${key}\n${line.split(" ")[1]}\n`);
    }
    return client;
  });
  const clients = await Promise.all(crew);
  say(prefix, next, "keys in", Date.now() - begun, "ms, bad", bad, "bystander's worst", by.worst(begun));
  return clients;
};
const statsKeys = async () => {
  const c = await open(server);
  const s = await c.ask("stats\n_\n\n");
  c.socket.close();
  return s.slice(0, 200);
};
const since = Date.now();
await work(true, "fresh", 70);
for (let i = 0; i < 7; i++) {
  const from = Date.now();
  await pause(7_000);
  say(
    "pruning",
    i,
    "bystander's worst",
    by.worst(from),
    "empty files",
    execSync(`find ${dir}/objects/holdfast-KeyObject -size -9 -name '*.sqlite' | wc -l`).toString().trim(),
    "of",
    execSync(`ls ${dir}/objects/holdfast-KeyObject | grep -c 'sqlite$'`).toString().trim(),
  );
}
say("(e) worst of all", by.worst(since), "bad", by.bad().length);
await by.stop();
by = await bystander(server, "bystander2");
const holders = await work(false, "held", 60);
await by.stop();
say("kill -9");
const pid = execSync(`cat ${dir}/workerd.pid`).toString();
process.kill(Number(pid), "SIGKILL");
await server.stop("SIGKILL");
server = await serve(build, dir, port, gc);
say("(f) started in", server.startedInMs, "ms");
by = await bystander(server, "bystander3");
for (let i = 0; i < 8; i++) {
  const from = Date.now();
  await pause(5_000);
  say(
    "restarted",
    i,
    "bystander's worst",
    by.worst(from),
    "cpu",
    execSync(`awk '{print $14+$15}' /proc/$(cat ${dir}/workerd.pid)/stat`).toString().trim(),
  );
}
say("(f) worst", by.worst(), "bad", by.bad().length);
const check = await open(server);
say("a held key", await check.acquire("held-17", 0), "bystander's lines:", server.lines.join("").slice(0, 400));
await by.stop();
await server.stop();
rmSync(dir, { recursive: true, force: true });
process.exit(0);
