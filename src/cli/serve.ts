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
  warnOfFewOpenFiles();
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

const FILES_PER_KEY = 3;
const FEW_OPEN_FILES = 8_192;

/** Too few open files show late, as errors on new keys: better said at the start. */
function warnOfFewOpenFiles(): void {
  const { userLimits } = process.report.getReport() as { userLimits?: { open_files?: { hard?: number | string } } };
  const hard = Number(userLimits?.open_files?.hard);
  if (!(hard < FEW_OPEN_FILES)) return;
  const keys = Math.floor(hard / FILES_PER_KEY);
  console.error(`holdfast: open files are limited to ${hard}, enough for about ${keys} keys in use at a time`);
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
