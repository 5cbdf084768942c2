import type { FileBudget } from "../front/limits/open-files.ts";
import { type RunningService, startService } from "../front/service.ts";
import { builtWorker, packageVersion } from "../front/system/package.ts";
import { type Address, formatAddress } from "../node/listeners/addresses.ts";
import { Failure } from "../node/listeners/failure.ts";
import type { ServeSettings } from "./settings.ts";
import { stopRequested } from "./signals.ts";

/** Runs the service until a signal stops it. Resolves after an orderly stop; throws a `Failure` otherwise. */
export async function serve(settings: ServeSettings): Promise<void> {
  let service: RunningService | undefined;
  const stopping = stopRequested(() => void service?.kill());
  if (settings.ignored.length > 0) {
    console.error(`holdfast: ignored, without counterpart here: ${settings.ignored.join(", ")}`);
  }
  service = await startService({
    worker: builtWorker(),
    dataDir: settings.dataDir,
    tcp: { host: settings.host, port: settings.port },
    http: { host: settings.httpHost, port: settings.httpPort },
    godistlock: addressOf(settings.host, settings.godistlockPort),
    relay: addressOf(settings.host, settings.relayPort),
    tls: settings.tls,
    httpMaxConnectionsPerIp: settings.httpMaxConnectionsPerIp,
    variables: settings.variables,
  });
  warnOfFewOpenFiles(service.budget);
  console.log(readyLine(settings));
  const cause = await Promise.race([stopping, service.failed]);
  if (cause instanceof Failure) {
    await service.kill();
    throw cause;
  }
  await service.stop();
}

const FEW_OPEN_FILES = 8_192;

/** Too few open files would show up late, as refusals: warn at startup. */
function warnOfFewOpenFiles({ openFiles, connections, awakeKeys, awakeSessions }: FileBudget): void {
  if (openFiles >= FEW_OPEN_FILES) return;
  console.error(
    `holdfast: open files are limited to ${openFiles}, ` +
      `enough for ${connections} connections, ${awakeKeys} keys in use and ${awakeSessions} idle HTTP sessions at a time`,
  );
}

function addressOf(host: string, port: number | undefined): Address | undefined {
  return port === undefined ? undefined : { host, port };
}

function readyLine({ host, port, httpHost, httpPort, dataDir, tls, ...ports }: ServeSettings): string {
  const tcp: Address = { host, port };
  const http: Address = { host: httpHost, port: httpPort };
  const more = Object.entries({ godistlock: ports.godistlockPort, relay: ports.relayPort })
    .map(([name, each]) => (each === undefined ? "" : `${name} ${formatAddress({ host, port: each })}, `))
    .join("");
  return (
    `holdfast ${packageVersion()} ready: ${tls ? "tls" : "tcp"} ${formatAddress(tcp)}, ${more}` +
    `http+ws ${tls ? "https" : "http"}://${formatAddress(http)}, data ${dataDir}`
  );
}
