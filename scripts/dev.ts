/** `wrangler dev` on the service's own ports, with everything switched off that would call home or look things up. */
import { spawn } from "node:child_process";
import { devArguments } from "./dev-arguments.ts";

const OFFLINE = {
  WRANGLER_SEND_METRICS: "false",
  WRANGLER_SEND_ERROR_REPORTS: "false",
  WRANGLER_HIDE_BANNER: "true",
  CLOUDFLARE_CF_FETCH_ENABLED: "false",
  X_LOCAL_OBSERVABILITY: "false",
};

const wrangler = spawn("wrangler", devArguments(process.argv.slice(2), process.cwd()), {
  env: { ...process.env, ...OFFLINE },
  stdio: "inherit",
  shell: process.platform === "win32",
});
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) process.on(signal, () => wrangler.kill(signal));
wrangler.on("error", (error) => {
  console.error(`holdfast: cannot start wrangler: ${error.message}`);
  process.exitCode = 1;
});
wrangler.on("exit", (code, signal) => {
  process.exitCode = code ?? (signal === "SIGINT" || signal === "SIGTERM" ? 0 : 1);
});
