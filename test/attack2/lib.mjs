/** Helpers of the attack scripts: servers of any build, and clients that speak lines over WebSocket. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { setTimeout as pause } from "node:timers/promises";
import { WebSocket } from "ws";

export { pause };
export async function serve(build, dataDir, port, variables = {}) {
  const args = [
    `${build}/dist/holdfast.js`,
    "serve",
    "--data-dir",
    dataDir,
    "--port",
    port,
    "--http-port",
    port + 1,
    "--godistlock-port",
    port + 2,
  ];
  const child = spawn("node", args.map(String), {
    stdio: ["ignore", "pipe", "pipe"],
    env: { ...process.env, ...variables },
    cwd: build,
  });
  const lines = [];
  for (const stream of [child.stdout, child.stderr]) stream.on("data", (text) => lines.push(String(text)));
  const begun = Date.now();
  for (;;) {
    if (child.exitCode !== null) throw new Error(`ended: ${lines.join("")}`);
    const isUp = await fetch(`http://127.0.0.1:${port + 1}/v1/health`).then(
      (r) => r.status < 500,
      () => false,
    );
    if (isUp) break;
    await pause(20);
  }
  return {
    child,
    lines,
    startedInMs: Date.now() - begun,
    url: `127.0.0.1:${port + 1}`,
    async stop(signal = "SIGTERM") {
      const gone = once(child, "exit");
      child.kill(signal);
      await gone;
    },
  };
}
export async function open(server, protocols = []) {
  const socket = new WebSocket(`ws://${server.url}/v1/ws`, protocols, { perMessageDeflate: false });
  const waiting = [];
  const pushes = [];
  const client = {
    socket,
    pushes,
    closed: undefined,
    ask(frame) {
      return new Promise((resolve, reject) => {
        waiting.push({ resolve, reject });
        socket.send(frame);
      });
    },
    async acquire(key, wait = 0, lease = "") {
      return this.ask(`l\n${key}\n${wait}${lease === "" ? "" : ` ${lease}`}\n`);
    },
  };
  socket.on("message", (data) => {
    const line = String(data).replace(/\n$/, "");
    if (line.startsWith("! ")) pushes.push(line);
    else waiting.shift()?.resolve(line);
  });
  socket.on("close", (code) => {
    client.closed = code;
    for (const { reject } of waiting.splice(0)) reject(new Error(`closed ${code}`));
  });
  socket.on("error", () => {});
  await Promise.race([
    once(socket, "open"),
    once(socket, "close").then(() => {
      throw new Error("refused");
    }),
  ]);
  return client;
}
/** Renews a lease of 5 s every second, and notes how long that takes. */
export async function bystander(server, key) {
  const client = await open(server);
  const token = (await client.acquire(key, 0, 5)).split(" ")[1];
  const took = [];
  let isOn = true;
  const loop = (async () => {
    while (isOn) {
      const at = Date.now();
      const answer = await client.ask(`n\n${key}\n${token} 5\n`).catch((error) => String(error));
      took.push({ at, ms: Date.now() - at, answer });
      await pause(Math.max(0, 1000 - (Date.now() - at)));
    }
  })();
  return {
    took,
    worst: (since = 0) => Math.max(0, ...took.filter(({ at }) => at >= since).map(({ ms }) => ms)),
    bad: () => took.filter(({ answer }) => !answer.startsWith("ok")),
    async stop() {
      isOn = false;
      await loop;
      client.socket.close();
    },
  };
}
