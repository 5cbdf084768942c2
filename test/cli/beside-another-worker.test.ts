/** The Worker beside one of the user's own, in one `wrangler dev` that is started in the user's folder. */
import { spawn } from "node:child_process";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, onTestFinished, test } from "vitest";
import { readWranglerConfig, writeTemporaryConfig } from "../../scripts/dev-config.ts";
import { eventually, freePort, isRunning, temporaryDir } from "./support.ts";

const ROOT = fileURLToPath(new URL("../..", import.meta.url));
const OFFLINE = {
  WRANGLER_SEND_METRICS: "false",
  WRANGLER_SEND_ERROR_REPORTS: "false",
  CLOUDFLARE_CF_FETCH_ENABLED: "false",
  X_LOCAL_OBSERVABILITY: "false",
  CI: "1",
};

/** Passes on what the service answers, asked under a name that no list has. */
const MINE = `export default { fetch: (request, env) => env.LOCKS.fetch("http://locks/v1/stats") };\n`;

/** wrangler bundles two Workers, which takes seconds, and much longer on a busy machine. */
const PATIENTLY = { timeout: 300_000 };

test(
  "is built wherever wrangler is started, and answers a service binding whatever names it answers to",
  PATIENTLY,
  async () => {
    const [folder, port] = [temporaryDir(), await freePort()];
    writeFileSync(join(folder, "mine.js"), MINE);
    const mine = { name: "mine", main: "mine.js", compatibility_date: "2026-11-04", dev: { inspector_port: 0 } };
    const services = [{ binding: "LOCKS", service: "holdfast" }];
    writeFileSync(join(folder, "mine.json"), JSON.stringify({ ...mine, services }));
    const config = readWranglerConfig(join(ROOT, "wrangler.toml"));
    // Without the TCP ports, which another server on this machine may have.
    const variables = { HTTP_ALLOWED_HOSTS: "locks.example.com" };
    using holdfast = writeTemporaryConfig(join(ROOT, "wrangler.toml"), { ...config, vars: variables }, [], []);
    const args = ["dev", "-c", "mine.json", "-c", holdfast.path, "--port", String(port), "--persist-to", folder];
    const wrangler = spawn(process.execPath, [join(ROOT, "node_modules/wrangler/bin/wrangler.js"), ...args], {
      cwd: folder,
      env: { ...process.env, ...OFFLINE },
      detached: true,
      stdio: ["ignore", "pipe", "pipe"],
    });
    const group = wrangler.pid ?? 0;
    onTestFinished(() => {
      if (isRunning(group)) process.kill(-group, "SIGKILL");
    });
    let output = "";
    for (const stream of [wrangler.stdout, wrangler.stderr])
      stream.setEncoding("utf8").on("data", (text: string) => {
        output += text;
      });
    const answer = await eventually(
      "an answer",
      async () => {
        if (wrangler.exitCode !== null) throw new Error(`wrangler has ended:\n${output}`);
        const reply = await fetch(`http://127.0.0.1:${port}/`).catch(() => undefined);
        return reply && { status: reply.status, text: await reply.text() };
      },
      240_000,
    );
    expect(answer, output).toMatchObject({ status: 200, text: expect.stringMatching(/^\{"connections":0,/) });
    expect(output).toContain("npm run console in its clone builds it");
  },
);
