import { type Address, formatAddress } from "./addresses.ts";
import { openDataDir } from "./data-dir.ts";
import { Failure } from "./failure.ts";
import { builtWorker, packageVersion } from "./package.ts";
import { type RunningWorkerd, startWorkerd, type WorkerdExit } from "./server.ts";
import type { ServeSettings } from "./settings.ts";
import { stopRequested } from "./signals.ts";

/** Runs the service until a signal stops it. Resolves after an orderly stop; throws a `Failure` otherwise. */
export async function serve(settings: ServeSettings): Promise<void> {
  let workerd: RunningWorkerd | undefined;
  const stopping = stopRequested(() => void workerd?.kill());
  if (settings.ignored.length > 0) {
    console.error(`holdfast: ignored, without counterpart here: ${settings.ignored.join(", ")}`);
  }
  const worker = builtWorker();
  const dataDir = await openDataDir(settings.dataDir);
  workerd = await startWorkerd({
    worker,
    dataDir: settings.dataDir,
    host: settings.host,
    tcpPort: settings.port,
    httpHost: settings.httpHost,
    httpPort: settings.httpPort,
    variables: settings.variables,
    tls: settings.tls,
  });
  console.log(readyLine(settings));
  const cause = await Promise.race([stopping, workerd.exited]);
  if (typeof cause !== "string") throw new Failure(`workerd ended by itself (${inWords(cause)})`);
  await workerd.stop();
  dataDir.close();
}

function readyLine({ host, port, httpHost, httpPort, dataDir, tls }: ServeSettings): string {
  const tcp: Address = { host, port };
  const http: Address = { host: httpHost, port: httpPort };
  return (
    `holdfast ${packageVersion()} ready: ${tls ? "tls" : "tcp"} ${formatAddress(tcp)}, ` +
    `http+ws ${tls ? "https" : "http"}://${formatAddress(http)}, data ${dataDir}`
  );
}

function inWords({ code, signal }: WorkerdExit): string {
  return signal ? `signal ${signal}` : `exit code ${code}`;
}
