/**
 * holdfast as `holdfast serve` runs it, on free ports, in a process of its own: the front door must not share a processor's
 * time with the clients that measure it. Started by `servers.ts`; ends with its parent.
 */

import { startService } from "../src/front/service.ts";
import { builtWorker } from "../src/front/system/package.ts";
import { withoutWarnings } from "./server-log.ts";

/** What the parent is told once connections are accepted. */
export interface Serving {
  readonly tcpPort: number;
  readonly httpPort: number;
  readonly workerdPid: number;
}

const [dataDir = ""] = process.argv.slice(2);
// The parent ends this process; a Ctrl-C on the terminal reaches both.
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) process.on(signal, () => {});
const service = await startService({
  worker: builtWorker(),
  dataDir,
  tcp: { host: "127.0.0.1", port: 0 },
  http: { host: "127.0.0.1", port: 0 },
  // Clients rest while others have their turn.
  variables: { HTTP_SESSION_IDLE_S: "3600" },
  log: withoutWarnings((line) => process.stderr.write(`[holdfast] ${line}`)),
});
const { tcpPort, httpPort, workerdPid } = service;
process.send?.({ tcpPort, httpPort, workerdPid } satisfies Serving);
process.once("disconnect", () => void service.kill().then(() => process.exit()));
