import type { Socket } from "node:net";
import { createSecureContext, type SecureContext } from "node:tls";
import { WebSocket } from "ws";
import { WINDOW_HEADER } from "../../core/protocols/carrier/window.ts";
import { formatAddress, plainIp } from "../../node/listeners/addresses.ts";
import { listen } from "../../node/listeners/listen.ts";
import { WriteTimeout } from "../../node/listeners/outbox.ts";
import { rateLimitedLog } from "../../node/listeners/rate-limited-log.ts";
import { secured } from "../../node/listeners/tls.ts";
import { VERSION } from "../../version.ts";
import { stopRequested } from "../signals.ts";
import { readProxyHeader } from "./proxy-reader.ts";
import { Pump } from "./pump.ts";
import type { BridgedProtocol, BridgeSettings } from "./settings.ts";

const HANDSHAKE_LIMIT_MS = 10_000;
const STOP_GRACE_MS = 1_500;
const SUBPROTOCOLS: Readonly<Record<BridgedProtocol, string>> = {
  dflockd: "dflockd.v2",
  godistlock: "godistlock.v1",
};

/** Runs the bridge until a signal stops it. */
export async function bridge(settings: BridgeSettings): Promise<void> {
  const stopping = stopRequested(() => process.exit(0));
  const running = await startBridge(
    settings,
    rateLimitedLog((line) => console.error(`holdfast: ${line}`)),
  );
  console.log(
    `holdfast ${VERSION} bridge ready: ${settings.tls ? "tls" : "tcp"} ${formatAddress(settings.listen)}` +
      ` -> ${settings.to.href}`,
  );
  await stopping;
  await running.stop();
}

export interface RunningBridge {
  readonly port: number;
  /** Closes the listener, every WebSocket (1001) and every client. */
  stop(): Promise<void>;
}

/** Resolves once the bridge accepts connections. `log` gets one line for each connection that failed. */
export async function startBridge(settings: BridgeSettings, log: (line: string) => void): Promise<RunningBridge> {
  const tls = settings.tls && createSecureContext({ cert: settings.tls.cert, key: settings.tls.key });
  const writeTimeout = new WriteTimeout(settings.writeTimeoutMs);
  const clients = new Set<Socket>();
  const pumps = new Set<Pump>();
  const listener = await listen(settings.listen, (client) => {
    clients.add(client);
    client.once("close", () => clients.delete(client));
    // Until the pump takes over, a reset only needs the close that follows it.
    client.on("error", () => client.destroy());
    void accept(client, { settings, tls, writeTimeout, log, pumps });
  });
  return {
    port: listener.port,
    async stop() {
      const closed = listener.close();
      for (const pump of pumps) pump.goAway();
      const timer = setTimeout(() => {
        for (const pump of pumps) pump.cut();
        for (const client of clients) client.destroy();
      }, STOP_GRACE_MS);
      await closed;
      clearTimeout(timer);
    },
  };
}

interface Bridge {
  readonly settings: BridgeSettings;
  readonly tls: SecureContext | undefined;
  readonly writeTimeout: WriteTimeout;
  readonly log: (line: string) => void;
  readonly pumps: Set<Pump>;
}

async function accept(client: Socket, { settings, tls, writeTimeout, log, pumps }: Bridge): Promise<void> {
  let address = client.remoteAddress;
  if (settings.expectsProxyHeader) {
    const header = await readProxyHeader(client);
    if (header.kind === "invalid") {
      log(`no PROXY protocol header from ${address}: closed`);
      client.destroy();
      return;
    }
    address = header.address ?? address;
  }
  if (client.destroyed || address === undefined) return;
  // A client costs a WebSocket only once it has completed its handshake.
  const stream = tls ? await secured(client, tls, HANDSHAKE_LIMIT_MS).catch(() => undefined) : client;
  if (!stream) log(`no TLS handshake from ${address}: closed`);
  if (!stream || stream.destroyed) return;
  const pump = new Pump(stream, openWebSocket(settings, plainIp(address)), writeTimeout, {
    refused: (reason) => log(`no WebSocket to ${settings.to.host} for ${address}: ${reason}`),
    closed: () => pumps.delete(pump),
  });
  pumps.add(pump);
}

function openWebSocket({ to, protocol, secret }: BridgeSettings, address: string): WebSocket {
  const headers: Record<string, string> = { [WINDOW_HEADER]: "1" };
  if (secret !== undefined) {
    headers["X-Holdfast-Bridge"] = secret;
    headers["X-Holdfast-Client-Address"] = address;
  }
  const options = { headers, perMessageDeflate: false, handshakeTimeout: HANDSHAKE_LIMIT_MS };
  return new WebSocket(to, SUBPROTOCOLS[protocol], options);
}
