import { spawn } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { GroupClient, given, takenUnder } from "../godistlock/group.ts";
import { speakTo } from "../godistlock/speaker.ts";
import { temporaryDir } from "./support.ts";

const SCRIPT = fileURLToPath(new URL("../../scripts/cluster.ts", import.meta.url));

test("a cluster says how to talk to it, agrees, and stops as a whole", async () => {
  const cluster = spawn(process.execPath, [SCRIPT, "3", "--data-dir", temporaryDir()], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  let printed = "";
  cluster.stdout.on("data", (text) => {
    printed += text;
  });
  const exited = once(cluster, "exit");
  while (!printed.includes("Ctrl-C")) await once(cluster.stdout, "data");
  const ports = Array.from(printed.matchAll(/godistlock 127\.0\.0\.1:([0-9]+)/g), ([, port]) => Number(port));
  expect(ports).toHaveLength(3);
  const [a, b] = await Promise.all(ports.map(async (port) => new GroupClient(await speakTo({ port }))));
  const fence = given((await a?.ask("ON deploy 60000")) ?? "");
  expect(takenUnder(fence)).toContain(await b?.ask("TRY deploy 1000"));
  cluster.kill("SIGINT");
  expect(await exited).toEqual([0, null]);
  for (const port of ports) await expect(speakTo({ port })).rejects.toThrow();
});
