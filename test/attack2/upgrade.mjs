/** (c) A directory written by one build and served by the other, and back. */
import { execSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { open, pause, serve } from "./lib.mjs";

const [first, second, portText] = process.argv.slice(2);
const port = Number(portText);
const dir = mkdtempSync("/tmp/rev2x/up-");
const env = { DFLOCKD_GC_MAX_IDLE_S: "20", DFLOCKD_RESUME_GRACE_S: "30" };
const say = (...words) => console.log(...words);
let server = await serve(first, dir, port, env);
const holder = await open(server);
const watcher = await open(server);
const credential = (await watcher.ask("session\n_\nresume\n")).split(" ")[1];
await watcher.ask("watch\n_\nlost\n");
const held = (await holder.acquire("held", 0, 60)).split(" ")[1];
const watched = (await watcher.acquire("watched", 0, 60)).split(" ")[1];
const contended = (await watcher.acquire("contended", 0, 60)).split(" ")[1];
const second2 = await open(server, []);
const cred2 = (await second2.ask("session\n_\nresume\n")).split(" ")[1];
second2.ask("@7 l\ncontended\n60 60\n").catch(() => {});
const idle = (await holder.acquire("idle", 0, 60)).split(" ")[1];
await holder.ask(`r\nidle\n${idle}\n`);
const sem = await holder.ask("sl\nsem\n0 3\n");
const file = await fetch(`http://${server.url}/v1/files/f1`, { method: "PUT" }).then((r) => r.status, String);
say("first build:", { held, watched, contended, sem, file });
await pause(500);
process.kill(Number(execSync(`cat ${dir}/workerd.pid`).toString()), "SIGKILL");
await server.stop("SIGKILL");
server = await serve(second, dir, port, env);
const c = await open(server);
say(
  "held by another:",
  await c.acquire("held", 0),
  "| renew:",
  await c.ask(`n\nheld\n${held} 60\n`),
  "| contended:",
  await c.acquire("contended", 0),
  "| idle:",
  await c.acquire("idle", 0),
  "(before",
  idle,
  ") | sem:",
  await c.ask("sl\nsem\n0 3\n"),
  await c.ask("sl\nsem\n0 3\n"),
  await c.ask("sl\nsem\n0 3\n"),
);
const resumed = await open(server, ["dflockd.v2", `holdfast.resume.${credential}`]).catch(String);
if (typeof resumed === "string") say("resumption:", resumed);
else {
  await resumed.ask("watch\n_\nlost\n").catch(String);
  say("resumed; renew 3 s:", await resumed.ask(`n\nwatched\n${watched} 3\n`).catch(String));
  const r2 = await open(server, ["dflockd.v2", `holdfast.resume.${cred2}`]).catch(String);
  const asked = r2.ask?.("@7 l\ncontended\n60 60\n").catch(String);
  say(
    "give back contended:",
    await resumed.ask(`r\ncontended\n${contended}\n`).catch(String),
    "| waiter:",
    await Promise.race([asked, pause(8000, "NOTHING after 8 s")]),
  );
  await pause(5000);
  say("pushes after the lease of 3 s has ended:", resumed.pushes);
}
say("release held:", await c.ask(`r\nheld\n${held}\n`));
say("server says:", server.lines.join("").slice(0, 1500));
await server.stop();
rmSync(dir, { recursive: true, force: true });
process.exit(0);
