import { getHeapSpaceStatistics, setFlagsFromString } from "node:v8";
import { serve as start } from "../node/index.ts";
import { type Address, formatAddress } from "../node/listeners/addresses.ts";
import { Failure } from "../node/listeners/failure.ts";
import { fewOpenFiles } from "../node/listeners/open-files.ts";
import { VERSION } from "../version.ts";
import type { ServeSettings } from "./settings.ts";
import { stopRequested } from "./signals.ts";

type Service = Awaited<ReturnType<typeof start>>;

/** Runs the service until a signal stops it. Resolves after an orderly stop; throws a `Failure` otherwise. */
export async function serve(settings: ServeSettings): Promise<void> {
  let service: Service | undefined;
  const stopping = stopRequested(() => void service?.kill());
  if (settings.ignored.length > 0) {
    console.error(`holdfast: ignored, without counterpart here: ${settings.ignored.join(", ")}`);
  }
  const { host, godistlockPort, relayPort } = settings;
  service = await start({
    dataDir: settings.dataDir,
    tcp: { host, port: settings.port },
    http: { host: settings.httpHost, port: settings.httpPort },
    godistlock: portOf(host, godistlockPort, { isOptional: settings.isGodistlockOptional }),
    relay: portOf(host, relayPort),
    tls: settings.tls,
    httpMaxConnectionsPerIp: settings.httpMaxConnectionsPerIp,
    variables: settings.variables,
  });
  keepYoungGenerationSmall();
  const warning = fewOpenFiles(service.budget);
  if (warning !== undefined) console.error(`holdfast: ${warning}`);
  console.log(readyLine(settings, service));
  const cause = await Promise.race([stopping, service.failed]);
  if (cause instanceof Failure) {
    await service.kill();
    throw cause;
  }
  await service.stop();
}

/** Kilobytes. Enough that most objects die in it: nearly all live for one turn of the event loop. */
const YOUNG_GENERATION_KB = 8_192;
const LOOK_EVERY_MS = 500;

/** V8 would let it grow to 128 MB (Node 24), most of the memory of a server that holds few keys. */
function keepYoungGenerationSmall(): void {
  const timer = setInterval(() => {
    const space = getHeapSpaceStatistics().find(({ space_name }) => space_name === "new_space");
    if (space === undefined || space.space_size < YOUNG_GENERATION_KB * 1024) return;
    setFlagsFromString("--semi-space-growth-factor=1");
    clearInterval(timer);
  }, LOOK_EVERY_MS);
  timer.unref();
}

function portOf(host: string, port: number | undefined, options: { readonly isOptional?: boolean } = {}) {
  return port === undefined ? undefined : { host, port, ...options };
}

function readyLine({ host, httpHost, dataDir, tls }: ServeSettings, service: Service): string {
  const tcp: Address = { host, port: service.tcpPort };
  const http: Address = { host: httpHost, port: service.httpPort };
  const more = Object.entries({ godistlock: service.godistlockPort, relay: service.relayPort })
    .map(([name, port]) => (port === 0 ? "" : `${name} ${formatAddress({ host, port })}, `))
    .join("");
  return (
    `holdfast ${VERSION} ready: ${tls ? "tls" : "tcp"} ${formatAddress(tcp)}, ${more}` +
    `http+ws ${tls ? "https" : "http"}://${formatAddress(http)}, data ${dataDir}`
  );
}
